// Run the query engine of Perfetto (WebAssembly) outside of a browser.
//
// Usage: node run_engine.js FOLDER REQUESTS REPLIES
// FOLDER has engine_bundle.js and trace_processor.wasm. REQUESTS is a TraceProcessorRpcStream, which
// the engine reads as it comes; its replies are written to REPLIES.
"use strict";
const fs = require("fs");
const path = require("path");

const [folder, requests, replies] = process.argv.slice(2);
const CHUNK = 1 << 20;

// What a web worker has and node does not.
globalThis.self = globalThis;
globalThis.location = { href: "file:///engine_bundle.js" };
globalThis.importScripts = () => {};
globalThis.WorkerGlobalScope = function () {};
globalThis.XMLHttpRequest = class {
  open(_, name) {
    this.name = name;
  }
  send() {
    const data = fs.readFileSync(path.join(folder, path.basename(String(this.name))));
    this.status = 200;
    this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
  }
};
console.log = console.warn = () => {};
delete process.versions.node; // else it is taken for a build for node

new Function(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"))();
const port = { postMessage: (data) => fs.appendFileSync(replies, data) };
self.onmessage({ data: port });
// The engine is compiled at once, and is ready when the callbacks that are due have run.
setTimeout(() => {
  const data = new Uint8Array(fs.readFileSync(requests));
  for (let at = 0; at < data.length; at += CHUNK) {
    port.onmessage({ data: data.subarray(at, at + CHUNK) });
  }
}, 0);
