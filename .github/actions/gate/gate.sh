#!/usr/bin/env bash
# Run the gate of the action: TRACES, CONDITIONS (one a line), and BASELINE, JUNIT, REPORT or "".
# The exit status is that of ccltui: 4 where a condition holds, 3 where one cannot be decided.
set -uo pipefail

ccltui=${RUNNER_TEMP:?}/ccltui/bin/ccltui
# A folder named like a verb (demo, report) or an option is one by its path.
traces=${TRACES:?} baseline=${BASELINE:-}
[[ $traces == /* ]] || traces=./$traces
[[ -z $baseline || $baseline == /* ]] || baseline=./$baseline
options=(--github)
while IFS= read -r condition; do
    [[ $condition =~ [^[:space:]] ]] && options+=(--fail-if "$condition")
done <<<"${CONDITIONS:?}"
[[ -z ${JUNIT:-} ]] || options+=(--junit "$JUNIT")

if [[ -n ${REPORT:-} ]]; then
    "$ccltui" report "$traces" -o "$REPORT" || echo "::warning::no page was written"
fi
if [[ -n $baseline ]]; then
    "$ccltui" diff "$baseline" "$traces" "${options[@]}"
else
    "$ccltui" "$traces" "${options[@]}"
fi
