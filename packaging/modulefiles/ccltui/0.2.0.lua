-- Lmod module file for a ccltui in a virtual environment: set `root` to its folder, or install
-- into the default, and copy this file to ccltui/0.2.0.lua in a folder of MODULEPATH.
local name = myModuleName()
local version = myModuleVersion()
local root = os.getenv("CCLTUI_ROOT") or pathJoin("/opt", name, version)

help([[Profiler traces of all ranks of a training job at once, on one clock, in the terminal.
ccltui DIR opens a directory of traces, ccltui --help lists the rest.]])
whatis("Name: ccltui")
whatis("Version: " .. version)
whatis("Category: tools, performance")
whatis("Description: profiler traces of all ranks of a training job, in the terminal")

conflict(name)

-- Only the commands: the packages of the environment stay out of the user's own Python.
prepend_path("PATH", pathJoin(root, "bin"))
prepend_path("MANPATH", pathJoin(root, "share", "man"))
prepend_path("XDG_DATA_DIRS", pathJoin(root, "share"))
prepend_path("FPATH", pathJoin(root, "share", "zsh", "site-functions"))
