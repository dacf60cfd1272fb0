"""Wordings of the tasks of a software engineer."""

from practicum_envs.office.families.family_parts import wordings

ROLE = "a software engineer"
CLOSE_A_FIXED_ISSUE = wordings(
    ROLE,
    (
        "The issue '{title}' of the GitLab project {path} is fixed. Close it. All other "
        "issues stay open. In the API an issue is closed by PUT projects/ID/issues/NUMBER "
        "with state_event=close; ID may be {id}, and projects/ID/issues lists the issues "
        "with their numbers (iid). Do not change its title or labels, and make no new issue."
    ),
    (
        "'{title}' is fixed, so this issue of the GitLab project {path} can be closed, and "
        "no other one. PUT projects/ID/issues/NUMBER with state_event=close does it; ID may "
        "be {id}, and the number (iid) is in the list at projects/ID/issues. Leave title and "
        "labels, and make no new issue."
    ),
    (
        "Project: {path} (GitLab; {id} works as ID)\n"
        "Issue: '{title}'\n"
        "To do: close it, by PUT projects/ID/issues/NUMBER with state_event=close\n"
        "The list at projects/ID/issues shows the number (iid). All other issues stay open; "
        "titles and labels do not change, and no issue is made."
    ),
    (
        "1. Find the number (iid) of the issue '{title}' in the GitLab project {path}: "
        "projects/ID/issues lists the issues, and ID may be {id}.\n"
        "2. Close it: PUT projects/ID/issues/NUMBER with state_event=close.\n"
        "3. Leave the other issues open, its title and labels as they are, and make no new "
        "issue."
    ),
    (
        "Good news: what '{title}' is about works again. Please close that issue in the "
        "GitLab project {path}. You find its number (iid) at projects/ID/issues, where ID "
        "may be {id}, and close it by a PUT to projects/ID/issues/NUMBER with "
        "state_event=close. The others are still open and stay so; do not rename or label "
        "anything, nor open an issue."
    ),
    where=("gitlab",),
)
FIX_A_FUNCTION = wordings(
    ROLE,
    (
        "In the GitLab project {path}, the function {name} in {file} does not do what its "
        "docstring says, and the tests fail. Clone the project, repair the function so that "
        "it is right for every whole number n from 0 on, run the tests with python3 -m "
        "unittest, commit, and push to main. Change only this file: the tests and the README "
        "stay as they are, and no file is added."
    ),
    (
        "Why do the tests of the GitLab project {path} fail? Because {name} in {file} is not "
        "what its docstring says. Repair it, so that it is right for any whole number n from "
        "0 on, not only for those in the tests (python3 -m unittest), and push to main. You "
        "need a clone; change {file} alone, neither tests nor README, and add no file."
    ),
    (
        "1. Clone the GitLab project {path}; python3 -m unittest fails there.\n"
        "2. Read the docstring of {name} in {file} and make the function do that, for every "
        "whole number n from 0 on.\n"
        "3. Run the tests again.\n"
        "4. Commit and push to main. No other file changes, tests and README included, and "
        "none is added."
    ),
    (
        "Project: {path} (GitLab)\n"
        "Broken: the function {name} in {file}\n"
        "Right: what its docstring says, for every whole number n that is 0 or more\n"
        "Tests: python3 -m unittest in a clone\n"
        "Result: a commit on main, pushed, which changes this file only; README and tests "
        "stay, there is no new file."
    ),
    (
        "There is a docstring that promises something, and a function that does something "
        "else: {name}, in {file} of the GitLab project {path}. The tests (python3 -m "
        "unittest) show it for a few numbers, but it must be right for all whole numbers n "
        "from 0 on. Clone the project, put the function in order, see the tests pass, "
        "commit, and push to main. Keep all other files, the tests too, as they are and add "
        "none."
    ),
    where=("gitlab",),
)
CUT_A_RELEASE = wordings(
    ROLE,
    (
        "Release a new {kind} version of the GitLab project {path}. The file VERSION on main "
        "has the last version, such as 1.4.2 (major, minor, patch). A new major version sets "
        "minor and patch to 0, a new minor version sets patch to 0. Write the new version to "
        "VERSION on main. Then make a release of main whose tag and name are v and the new "
        "version, such as v1.5.0, with the description '{headline}'. Change no other file "
        "and make no other release."
    ),
    (
        "It is time for a new {kind} version of the GitLab project {path}. The last one is "
        "in VERSION on main, three numbers as in 1.4.2: major, minor, patch; what stands "
        "after the one that is raised becomes 0. Put the new version into VERSION on main, "
        "and then make a release of main, with tag and name both v and the version (v1.5.0), "
        "described as '{headline}'. No other file, no other release."
    ),
    (
        "1. Read VERSION on main in the GitLab project {path}, such as 1.4.2: major, minor, "
        "patch.\n"
        "2. Raise the {kind} number; with major, minor and patch go to 0, with minor, patch "
        "does.\n"
        "3. Write the new version to VERSION on main.\n"
        "4. Only then make a release of main: tag and name v and the version, such as "
        "v1.5.0, description '{headline}'. Nothing else changes."
    ),
    (
        "Project: {path} (GitLab)\n"
        "Version: a new {kind} one; VERSION on main has the last (as 1.4.2, major, minor, "
        "patch; a new major sets the others to 0, a new minor the patch)\n"
        "First: the new version in VERSION on main\n"
        "Then: one release of main, tag and name v plus version (such as v1.5.0), "
        "description '{headline}'\n"
        "Other files stay as they are."
    ),
    (
        "Users wait for '{headline}', so we release. For the GitLab project {path} this is a "
        "{kind} version: count on from VERSION on main, which has major, minor and patch "
        "like 1.4.2, and set to 0 what comes after the number you raise. VERSION is changed "
        "first, on main; the release, of main as it then is, has that text as its "
        "description and v with the version, as in v1.5.0, as its tag and name. It is the "
        "only release and VERSION the only file."
    ),
    where=("gitlab",),
)
TRIAGE_ISSUES = wordings(
    ROLE,
    (
        "In the GitLab project {path}, add the label {label} to every issue whose "
        "description has the word {word}, and to no other issue. The labels that an issue "
        "has already stay on it. Titles, descriptions and states stay as they are too. In "
        "the API it is PUT projects/ID/issues/NUMBER with add_labels; projects/ID/issues "
        "lists the issues with their numbers (iid) and descriptions."
    ),
    (
        "Which issues of the GitLab project {path} are about {word}? All whose description "
        "has this word. They get the label {label} on top of those they have, and other "
        "issues do not. PUT projects/ID/issues/NUMBER with add_labels does that; the list at "
        "projects/ID/issues has descriptions and numbers (iid). Titles, descriptions and "
        "states are not changed."
    ),
    (
        "1. List the issues of the GitLab project {path}: projects/ID/issues has their "
        "numbers (iid) and descriptions.\n"
        "2. Choose each one with the word {word} in its description.\n"
        "3. Add the label {label} to it, by PUT projects/ID/issues/NUMBER with add_labels, "
        "so that its other labels stay.\n"
        "4. No other issue, title, description or state changes."
    ),
    (
        "Project: {path} (GitLab)\n"
        "Look for: the word {word} in descriptions, at projects/ID/issues (numbers are iid)\n"
        "Label to add there, and nowhere else: {label}\n"
        "How: PUT projects/ID/issues/NUMBER with add_labels\n"
        "To be kept: labels that are there already, titles, descriptions, states."
    ),
    (
        "Nobody can find the issues about {word} in the GitLab project {path} any more. So "
        "that people can filter, each issue that has this word in its description shall "
        "carry the label {label}, besides whatever labels it has: PUT "
        "projects/ID/issues/NUMBER with add_labels, the number being the iid in the list "
        "projects/ID/issues. The label is wrong on any other issue, and everything else of "
        "an issue stays as it is."
    ),
    where=("gitlab",),
)
MERGE_WHAT_IS_APPROVED = wordings(
    ROLE,
    (
        "The GitLab project {path} has four open merge requests. Merge those that {reviewer} "
        "has approved: there is a comment 'Approved.' by this reviewer; the same comment by "
        "anybody else does not count. Leave the others open, and write this comment on each "
        "of them: {text}\n"
        "In the API it is PUT projects/ID/merge_requests/NUMBER/merge, and GET or POST "
        "projects/ID/merge_requests/NUMBER/notes for comments (field body)."
    ),
    (
        "Four merge requests are open in the GitLab project {path}. Which has {reviewer} "
        "approved? Those with a comment 'Approved.' by {reviewer}; from others it means "
        "nothing. Merge these: PUT projects/ID/merge_requests/NUMBER/merge. The rest stays "
        "open, each with this new comment: {text}\n"
        "You read and write comments at projects/ID/merge_requests/NUMBER/notes (GET, POST "
        "with body)."
    ),
    (
        "1. In the GitLab project {path}, read the comments of the four open merge requests: "
        "GET projects/ID/merge_requests/NUMBER/notes.\n"
        "2. Where {reviewer} wrote 'Approved.', merge it: PUT "
        "projects/ID/merge_requests/NUMBER/merge. Nobody else's 'Approved.' is enough.\n"
        "3. Leave the others open and comment on each (POST to the same notes, field body): "
        "{text}"
    ),
    (
        "Project: {path} (GitLab), four open merge requests\n"
        "Reviewer: {reviewer}\n"
        "Approved: there is a comment 'Approved.' by the reviewer, not by anybody else\n"
        "Then: merge it (PUT projects/ID/merge_requests/NUMBER/merge)\n"
        "Otherwise: leave it open, with one comment more (POST "
        "projects/ID/merge_requests/NUMBER/notes, field body; GET shows them): {text}"
    ),
    (
        "Only {reviewer} may approve in the GitLab project {path}, and does so by the "
        "comment 'Approved.'; others have written that too, which does not count. There are "
        "four open merge requests. Please merge all that are approved in this sense, by PUT "
        "projects/ID/merge_requests/NUMBER/merge, and no others. Under each that stays open "
        "write, by POST projects/ID/merge_requests/NUMBER/notes with the field body (GET "
        "lists what is there): {text}"
    ),
    where=("gitlab",),
)
SET_UP_A_DEPLOYMENT = wordings(
    ROLE,
    (
        "In the GitLab project {path}, deploy.json on main lacks its host and its port. "
        "{first.name} (@{first.username}) knows the port, {second.name} (@{second.username}) "
        "the host. Ask them by direct message in RocketChat; if you are asked, this is for "
        "the ticket {ticket}. Set host (a text) and port (a number) in deploy.json, keep its "
        "other values, and push to main. Then close the issue 'Deploy the service' (number "
        "1)."
    ),
    (
        "deploy.json on main of the GitLab project {path} has neither the right host (a "
        "text) nor the right port (a number). The port is known to {first.name} "
        "(@{first.username}), the host to {second.name} (@{second.username}): ask them by "
        "direct message in RocketChat, for the ticket {ticket} if they want to know. Push "
        "both values to main, the other ones unchanged, and when that is done close issue "
        "number 1, 'Deploy the service'."
    ),
    (
        "1. Ask @{first.username} ({first.name}) for the port and @{second.username} "
        "({second.name}) for the host, by direct message in RocketChat. It is for the ticket "
        "{ticket}, if anyone asks.\n"
        "2. Write them to deploy.json in the GitLab project {path}: host is a text, port a "
        "number, and what else is there stays. Push to main.\n"
        "3. Close the project's issue 1, 'Deploy the service'."
    ),
    (
        "Project: {path} (GitLab), file deploy.json on main\n"
        "Port (a number): ask {first.name}, @{first.username}\n"
        "Host (a text): ask {second.name}, @{second.username}\n"
        "Ticket, should they ask: {ticket}\n"
        "Both answer direct messages in RocketChat. Set the two, keep the other values, push "
        "to main. Last, close the issue 'Deploy the service' (number 1)."
    ),
    (
        "The service of the GitLab project {path} cannot be deployed as long as host and "
        "port in deploy.json on main are not set, which is what the issue 'Deploy the "
        "service' (number 1) is about. {first.name} can tell you the port and {second.name} "
        "the host; they are @{first.username} and @{second.username} in RocketChat, write to "
        "them directly, and name the ticket {ticket} when you are asked. Then push the file, "
        "host as text and port as number and the rest as it was, and close the issue."
    ),
    where=("gitlab", "rocketchat"),
)
