"""Coverage by package adds the counts of its files."""

from __future__ import annotations

from bench.branch_coverage import package_of, packages, table


def counts(statements: int, run: int, branches: int, taken: int) -> dict[str, dict[str, int]]:
    return {
        "summary": {
            "num_statements": statements,
            "covered_lines": run,
            "num_branches": branches,
            "covered_branches": taken,
        }
    }


def test_counts_are_summed_by_package_and_over_all() -> None:
    found = packages(
        {
            "files": {
                "metrics/arrays/intervals.py": counts(10, 9, 4, 3),
                "metrics/arrays/passes/deep.py": counts(10, 1, 0, 0),
                "metrics/registry.py": counts(5, 5, 0, 0),
            }
        }
    )

    assert list(found) == ["metrics", "metrics/arrays", "all"]
    assert list(table(found))[2:] == [
        "| `metrics` | 5 | 100% | 0 | -- |",
        "| `metrics/arrays` | 20 | 50% | 4 | 75% |",
        "| `all` | 25 | 60% | 4 | 75% |",
    ]


def test_a_package_is_a_folder_below_one_at_the_top() -> None:
    assert package_of("ccltui/tui/panes/files.py") == "ccltui/tui"
    assert package_of("ccltui/cli.py") == "ccltui"
