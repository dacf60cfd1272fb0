"""Wordings of the tasks of quality assurance."""

from practicum_envs.office.families.family_parts import wordings

ROLE = "a test engineer"
COMMENT_ON_AN_ISSUE = wordings(
    ROLE,
    (
        "Write this comment on the issue number {number} of the GitLab project {path}, word "
        "for word:\n"
        "{text}\n"
        "In the API a comment is a note: POST projects/ID/issues/NUMBER/notes with the field "
        "body; ID may be {id}. Write it once, on this issue only. The issue stays open, and "
        "its title and description stay as they are."
    ),
    (
        "Issue number {number} of the GitLab project {path} is missing a comment, this one, "
        "word for word:\n"
        "{text}\n"
        "Add it by POST projects/ID/issues/NUMBER/notes (ID may be {id}), with the field "
        "body. Once, and on no other issue. Leave it open, and title and description as they "
        "are."
    ),
    (
        "Project: {path} (GitLab; as ID {id} will do)\n"
        "Issue: number {number}\n"
        "Comment, word for word: {text}\n"
        "A comment is a note in the API: POST projects/ID/issues/NUMBER/notes with body. One "
        "comment on this one issue; do not close it, and do not change its title or "
        "description."
    ),
    (
        "1. Take this text as it is: {text}\n"
        "2. In the GitLab project {path} write it as a comment on issue number {number}: "
        "POST projects/ID/issues/NUMBER/notes, field body, where ID may be {id}.\n"
        "3. Do that once, on no other issue, and leave the issue open with its title and "
        "description."
    ),
    (
        "The test is done, and its result belongs under issue {number} of the GitLab project "
        "{path}:\n"
        "{text}\n"
        "Word for word, please, as one comment (POST projects/ID/issues/NUMBER/notes with "
        "the field body; {id} may stand for ID). The other issues get none, and of this one "
        "neither title nor description nor state changes."
    ),
    where=("gitlab",),
)
REPORT_FAILING_TESTS = wordings(
    ROLE,
    (
        "Clone the GitLab project {path} and run its tests with python3 -m unittest. For "
        "each test that fails, open one issue in the project with the title 'Failing: ' and "
        "the name of the test, such as 'Failing: test_login_12', and the label bug. Open no "
        "issue for tests that pass. Do not repair anything: the repository stays as it is."
    ),
    (
        "Which tests of the GitLab project {path} fail? Clone it, run python3 -m unittest, "
        "and open an issue there for each: its title is 'Failing: ' and the test's name, as "
        "in 'Failing: test_login_12', its label is bug. There is none for a test that "
        "passes, and none twice. The code is not repaired, the repository not changed."
    ),
    (
        "1. Clone the GitLab project {path} and run its tests: python3 -m unittest.\n"
        "2. For every test that fails open one issue in the project, labelled bug, with a "
        "title like 'Failing: test_login_12', that is, 'Failing: ' and the name.\n"
        "3. Nothing for tests that pass.\n"
        "4. Leave the repository as it is; repairs are for others."
    ),
    (
        "Project: {path} (GitLab)\n"
        "Tests: python3 -m unittest in a clone\n"
        "For each failing test: one issue in the project, title 'Failing: ' plus the name of "
        "the test ('Failing: test_login_12'), label bug\n"
        "For others: nothing\n"
        "The code stays as it is; do not repair or push anything."
    ),
    (
        "Somebody broke something in the GitLab project {path}. We do not want you to repair "
        "it, so push nothing; we want to know. Run the tests in a clone (python3 -m "
        "unittest) and write down in the project's issues what fails: one issue a test, with "
        "the label bug and a title such as 'Failing: test_login_12', which names the test "
        "after 'Failing: '. A test that passes needs no issue."
    ),
    where=("gitlab",),
)
SUM_UP_A_TEST_REPORT = wordings(
    ROLE,
    (
        "The file {path} in ownCloud is the report of a test run in JUnit's form: a testcase "
        "element for each test, with a failure, error or skipped element in it where it did "
        "not pass. Upload {target} to ownCloud: a JSON object with the keys tests (how many "
        "there are), failed (those with a failure or an error), skipped, and slowest (the "
        "name of the test that took the longest time)."
    ),
    (
        "How did the build go? {path} in ownCloud is a JUnit file: each testcase element is "
        "a test, and one that did not pass has a failure, error or skipped element inside. "
        "Upload {target}, a JSON object: tests is how many there are, failed how many have a "
        "failure or an error, skipped how many were skipped, slowest the name of the one "
        "with the longest time."
    ),
    (
        "1. Download {path} from ownCloud, a test report in JUnit's form (testcase elements, "
        "with failure, error or skipped in those that did not pass).\n"
        "2. Count all of them, those with a failure or error, and those skipped; find the "
        "one that took the longest time.\n"
        "3. Upload {target}, a JSON object with the keys tests, failed, skipped and slowest, "
        "which is a name."
    ),
    (
        "Report: {path} (ownCloud), JUnit: a testcase for each test; failure, error or "
        "skipped within it says why it did not pass\n"
        "Summary: {target} (ownCloud), a JSON object\n"
        "tests: all of them\n"
        "failed: with a failure or an error\n"
        "skipped: skipped ones\n"
        "slowest: the name of the test of the longest time\n"
        "No other keys."
    ),
    (
        "Nobody reads XML, so {path} in ownCloud needs a summary, {target}. It is a JSON "
        "object with four keys: tests, the number of testcase elements; failed, those in "
        "which there is a failure or an error element; skipped, those with a skipped "
        "element; and slowest, the name of the testcase whose time is the longest. The "
        "report has JUnit's usual form."
    ),
    where=("owncloud",),
)
VERIFY_CHECKSUMS = wordings(
    ROLE,
    (
        "The folder {folder} in ownCloud has the files of a release, and SHA256SUMS with the "
        "SHA-256 sum that each of them must have. Some files are damaged, and one is "
        "missing. Upload {target} to ownCloud: a text file with the names of all files of "
        "SHA256SUMS that are damaged or missing, one a line, sorted, without a folder. "
        "sha256sum is on your machine. Do not change or delete any other file."
    ),
    (
        "Are the files of the release in {folder} in ownCloud what they should be? "
        "SHA256SUMS there has their SHA-256 sums. Some are damaged and one is missing: list "
        "the names of all of these, sorted, one a line and without a folder, in a text file "
        "{target} that you upload. sha256sum is on your machine. Leave all other files alone."
    ),
    (
        "1. Download the folder {folder} from ownCloud, with SHA256SUMS.\n"
        "2. Check with sha256sum which of the files listed there are damaged, and which is "
        "missing.\n"
        "3. Upload {target}: the names of both kinds, a line each, in order, no folder "
        "before them.\n"
        "4. Change or delete no other file."
    ),
    (
        "Release: {folder} in ownCloud\n"
        "Sums: SHA256SUMS in the same folder, SHA-256\n"
        "Wrong: files with another sum, and one that is not there\n"
        "List: {target}, a text file in ownCloud with the wrong files' names, without "
        "folders, sorted, one a line\n"
        "sha256sum is installed. No file is repaired, changed or deleted."
    ),
    (
        "A download of ours arrived broken. The files lie in {folder} in ownCloud, and "
        "beside them SHA256SUMS says which SHA-256 sum each should have, also for one that "
        "never came. Your machine has sha256sum. Write the names of everything that is "
        "damaged or missing to {target}: plain names in order, each on a line. Upload that "
        "and leave the rest as it is; we fetch the files again."
    ),
    where=("owncloud",),
)
ESCALATE_AN_INCIDENT = wordings(
    ROLE,
    (
        "In the RocketChat channel #{channel} a program posts alerts, such as 'ALERT 1234 "
        "critical search', and 'RESOLVED 1234' when one is over. Exactly one critical alert "
        "is not resolved. Open an issue for it in the Plane project '{board}': the name is "
        "'Incident 1234: search' with its number and place, the priority is urgent, and the "
        "only assignee is the person on call, whose username is in the topic of #{channel}. "
        "Warnings get no issue. Post nothing."
    ),
    (
        "One critical alert is still open, and nobody has an issue for it. Alerts are posted "
        "in #{channel} in RocketChat ('ALERT 1234 critical search'), and 'RESOLVED 1234' "
        "ends one; warnings do not matter. In the Plane project '{board}' make the issue "
        "'Incident 1234: search', with the right number and place, priority urgent, assigned "
        "to nobody but the person on call, whose username is in the channel's topic. Post "
        "nothing."
    ),
    (
        "1. Read #{channel} in RocketChat: 'ALERT 1234 critical search' begins an alert, "
        "'RESOLVED 1234' ends it.\n"
        "2. Find the only critical one that has not ended; leave warnings out.\n"
        "3. See in the topic of #{channel} who is on call, by username.\n"
        "4. In the Plane project '{board}' open the issue 'Incident 1234: search' (its "
        "number and place), urgent, with that person as only assignee. Write nothing in chat."
    ),
    (
        "Alerts: #{channel} in RocketChat, such as 'ALERT 1234 critical search' and later "
        "'RESOLVED 1234'\n"
        "Open: exactly one critical alert; warnings do not count\n"
        "On call: the username in the topic of #{channel}\n"
        "To make: an issue in the Plane project '{board}' named like 'Incident 1234: "
        "search', priority urgent, assignee the person on call alone\n"
        "In chat: nothing is posted."
    ),
    (
        "A program fills #{channel} in RocketChat with lines like 'ALERT 1234 critical "
        "search' and, when all is well again, 'RESOLVED 1234'. It should have been noticed "
        "that one critical alert was never resolved. Make up for it in the Plane project "
        "'{board}': one urgent issue 'Incident 1234: search', with this alert's number and "
        "place, for whoever is on call, which the topic of #{channel} says, and for no one "
        "else. There is none for warnings; post nothing."
    ),
    where=("rocketchat", "plane"),
)
REPRODUCE_A_BUG = wordings(
    ROLE,
    (
        "{reporter.name} (@{reporter.username}) has found a bug. Ask by direct message in "
        "RocketChat for the version and the error code. Then ask {developer.name} "
        "(@{developer.username}) by when it can be fixed. Open one issue in the GitLab "
        "project {path} with the title '{title}', a description of two lines in this form, "
        "and the day as due_date; assign it to the developer alone.\n"
        "Version: 1.2.3\n"
        "Error: E1234"
    ),
    (
        "{reporter.name} saw a bug, {developer.name} can fix it, and GitLab knows nothing of "
        "it. Find out by direct messages in RocketChat the version and the error code (from "
        "@{reporter.username}), then the day by which it is fixed (from "
        "@{developer.username}). Then open one issue in the project {path}, titled "
        "'{title}', due on that day (due_date), assigned to the developer alone, with "
        "exactly these two lines as description, but with what you learned:\n"
        "Version: 1.2.3\n"
        "Error: E1234"
    ),
    (
        "1. Ask {reporter.name} (@{reporter.username}) in RocketChat, directly, which "
        "version shows the bug and with which error code.\n"
        "2. Ask {developer.name} (@{developer.username}) by when it can be fixed.\n"
        "3. Open one issue in the GitLab project {path}: title '{title}', that day as "
        "due_date, the developer as only assignee, and a description of two lines like "
        "these:\n"
        "Version: 1.2.3\n"
        "Error: E1234"
    ),
    (
        "Project: {path} (GitLab), one new issue\n"
        "Title: '{title}'\n"
        "Assignee: {developer.name} alone\n"
        "Due date: by when @{developer.username} can fix it\n"
        "Description, two lines in this form:\n"
        "Version: 1.2.3\n"
        "Error: E1234\n"
        "Version and error code are known to {reporter.name} (@{reporter.username}), who "
        "found the bug. Ask both by direct message in RocketChat, the reporter first."
    ),
    (
        "Something is broken and {reporter.name} has seen it. Before it can be an issue we "
        "need facts: write to @{reporter.username} in RocketChat, directly, for the version "
        "and the error code, and with these to @{developer.username}, {developer.name}, for "
        "the day of the fix. The issue goes to the GitLab project {path}; there is only one, "
        "it is called '{title}', its due_date is that day, its assignee {developer.name} and "
        "no one else, and its description reads like this:\n"
        "Version: 1.2.3\n"
        "Error: E1234"
    ),
    where=("rocketchat", "gitlab"),
)
