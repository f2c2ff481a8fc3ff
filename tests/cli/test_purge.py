"""`hindlake purge` as scripts see it: it asks first, shows a receipt, and can't be undone."""

from __future__ import annotations

from shell import Shell


def test_a_purge_wants_a_yes_and_gives_a_receipt(shell: Shell) -> None:
    text = "The door code of the blue house is 4711, and it changes in May"
    id = shell("remember", text).out.strip()
    kept = shell("remember", "The kettle in the kitchen leaks").out.strip()
    refused = shell("purge", id)
    assert (refused.code, "--yes" in refused.err) == (2, True)
    shown = shell("purge", id, "--dry-run", "--json").json
    assert (shown["hidden"], shown["dry_run"], shown["verified"]) == ([id], True, False)
    done = shell("purge", id, "--yes", "--now", "--json")
    assert (done.code, done.json["verified"], done.json["leftovers"]) == (0, True, [])
    assert text not in done.out
    assert [hit["id"] for hit in shell("search", "", "--json").json["hits"]] == [kept]
    explained = shell("explain", id).out
    assert (explained.splitlines()[0], "none: it was purged" in explained) == ("(purged)", True)
    assert shell("restore", id).code == 2
    again = shell("purge", id, "--yes", "--now")
    assert (again.code, "nothing left" in again.out) == (0, True)
    assert shell("purge", "--sweep", "--json").json == {"receipts": []}
    (swept,) = shell("purge", "--sweep", "--now", "--json").json["receipts"]
    assert swept["sweep_due"] is None


def test_a_purge_of_nothing_is_wrong_usage(shell: Shell) -> None:
    assert shell("purge", "--yes").code == 2
    assert shell("purge", "nobody", "--yes").code == 2
    assert shell("purge", "nobody", "--sweep").code == 2


def test_what_others_say_word_for_word_can_not_be_verified_and_the_fix_is_named(shell: Shell) -> None:
    text = "The door code of the blue house is 4711, and it changes in May"
    id, other = (shell("remember", text, "--subject", name).out.strip() for name in ("ann", "bob"))
    done = shell("purge", id, "--yes", "--now")
    assert (done.code, "purge those as well" in done.err, "tries again" in done.err) == (1, True, False)
    assert shell("purge", other, "--yes", "--now").code == 0
