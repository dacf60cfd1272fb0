"""Wordings of the tasks of a project manager."""

from practicum_envs.office.families.family_parts import wordings

ROLE = "a project assistant"
MOVE_A_CARD = wordings(
    ROLE,
    (
        "In the Plane project '{name}', move the issue '{value1}' to the state {state}. The "
        "other issues stay as they are. In the API an issue is changed by PATCH "
        "projects/PROJECT/issues/ISSUE/ with the id of the state; projects/, "
        "projects/PROJECT/issues/ and projects/PROJECT/states/ list the ids. `office plane "
        "GET projects/ '/results/name=NAME/id'` shows one id of a list."
    ),
    (
        "The issue '{value1}' in the Plane project '{name}' belongs in the state {state}; "
        "please move it, and no other. PATCH projects/PROJECT/issues/ISSUE/ takes the id of "
        "the state. You see ids in projects/, projects/PROJECT/issues/ and "
        "projects/PROJECT/states/; `office plane GET projects/ '/results/name=NAME/id'` "
        "shows one of a list."
    ),
    (
        "Plane project: '{name}'\n"
        "Issue: '{value1}'\n"
        "New state: {state}\n"
        "By PATCH projects/PROJECT/issues/ISSUE/ with the id of the state. The ids are "
        "listed by projects/, projects/PROJECT/issues/ and projects/PROJECT/states/, and "
        "`office plane GET projects/ '/results/name=NAME/id'` shows one. Other issues stay "
        "as they are."
    ),
    (
        "1. Find the ids of the Plane project '{name}', of its issue '{value1}' and of the "
        "state {state} in projects/, projects/PROJECT/issues/ and projects/PROJECT/states/ "
        "(`office plane GET projects/ '/results/name=NAME/id'` shows one of a list).\n"
        "2. PATCH projects/PROJECT/issues/ISSUE/ with the id of the state. Leave the other "
        "issues."
    ),
    (
        "What was agreed on: '{value1}' is {state} from now on. Show it in Plane, in the "
        "project '{name}', where this is the state of an issue: PATCH "
        "projects/PROJECT/issues/ISSUE/ with the state's id. Ids are in projects/, "
        "projects/PROJECT/issues/, projects/PROJECT/states/, for example `office plane GET "
        "projects/ '/results/name=NAME/id'`. No other issue moves."
    ),
    where=("plane",),
)
PLAN_A_SPRINT = wordings(
    ROLE,
    (
        "In the Plane project '{name}', put every issue that has the label {label} and the "
        "state Todo into the cycle '{sprint}', and no other issue. Issues may have more "
        "labels than one. Nothing else changes: states, labels and the other cycle stay as "
        "they are. In the API it is POST projects/PROJECT/cycles/CYCLE/cycle-issues/ with a "
        "list `issues` of ids."
    ),
    (
        "What goes into '{sprint}'? In the Plane project '{name}': every issue with the "
        "label {label} whose state is Todo, also when it has other labels, and no other "
        "issue. Add them to that cycle by POST projects/PROJECT/cycles/CYCLE/cycle-issues/ "
        "with a list `issues` of their ids. Do not change states or labels, nor the other "
        "cycle."
    ),
    (
        "1. Find the issues of the Plane project '{name}' that have the label {label}, alone "
        "or among others, and are in the state Todo.\n"
        "2. Put all of them into the cycle '{sprint}': POST "
        "projects/PROJECT/cycles/CYCLE/cycle-issues/ with their ids in a list `issues`.\n"
        "3. No other issue goes there; states, labels and the other cycle are not changed."
    ),
    (
        "Plane project: '{name}'\n"
        "Cycle: '{sprint}'\n"
        "Issues: label {label} (there may be more labels) and state Todo, all of these and "
        "only these\n"
        "Route: POST projects/PROJECT/cycles/CYCLE/cycle-issues/ with a list `issues` of "
        "ids\n"
        "The issues themselves stay as they are, and so does the other cycle."
    ),
    (
        "The next sprint of '{name}' in Plane is about {label}. So please plan it: whatever "
        "has that label and waits in Todo is added to the cycle '{sprint}', whether it has "
        "further labels or not; what is in another state or lacks the label is not. A POST "
        "to projects/PROJECT/cycles/CYCLE/cycle-issues/ with a list `issues` of ids adds "
        "them. Otherwise nothing on the board changes, the second cycle included."
    ),
    where=("plane",),
)
RAISE_WHAT_IS_LATE = wordings(
    ROLE,
    (
        "Today is {today}. In the Plane project '{name}', an issue is late when its "
        "target_date is before today and its state is neither Done nor Cancelled. Set the "
        "priority of every late issue to urgent. Issues that are due today, and issues "
        "without a target date, are not late. Change nothing else on the board. In the API "
        "it is PATCH projects/PROJECT/issues/ISSUE/ with the field priority."
    ),
    (
        "Which issues of the Plane project '{name}' are late on {today}, which is today? "
        "Those with a target_date before it that are neither Done nor Cancelled. Make each "
        "of them urgent: PATCH projects/PROJECT/issues/ISSUE/ with priority. Due today is "
        "not late, no target date is not late either, and the rest of the board stays as it "
        "is."
    ),
    (
        "1. Take {today} as today.\n"
        "2. In the Plane project '{name}' find issues whose target_date has passed and whose "
        "state is not Done or Cancelled. Today's date has not passed; an issue without one "
        "cannot be late.\n"
        "3. Set priority to urgent for each, by PATCH projects/PROJECT/issues/ISSUE/.\n"
        "4. Change nothing else on the board."
    ),
    (
        "Plane project: '{name}'\n"
        "Today: {today}\n"
        "Late: target_date before today, state other than Done and Cancelled\n"
        "Not late: due today, or without a target date\n"
        "To do: priority urgent for all that is late, with PATCH "
        "projects/PROJECT/issues/ISSUE/, and no other change on the board."
    ),
    (
        "Late work has to be seen. It is {today}, and on the board '{name}' in Plane "
        "everything whose target_date is over, and that is not in Done or Cancelled, shall "
        "have the priority urgent (PATCH projects/PROJECT/issues/ISSUE/ with the field "
        "priority). What is due on this very day still has time, and what has no target date "
        "has all the time there is: leave these, and everything else, alone."
    ),
    where=("plane",),
)
MIRROR_CLOSED_ISSUES = wordings(
    ROLE,
    (
        "The GitLab project {path} and the Plane project '{name}' have issues with the same "
        "titles. Bring Plane up to date: every issue of Plane whose issue in GitLab is "
        "closed goes to the state Done, except those that are Cancelled in Plane, which stay "
        "so. Titles must be exactly the same. Issues that are open in GitLab, or are not "
        "there, stay as they are in Plane, and nothing is changed in GitLab."
    ),
    (
        "Plane's project '{name}' lags behind GitLab's {path}. For every issue that is "
        "closed in GitLab, the issue of exactly the same title in Plane shall be Done, "
        "unless it is Cancelled there, which it stays. Others in Plane, because theirs is "
        "open or there is none, are left as they are, and GitLab is not changed at all."
    ),
    (
        "1. See which issues of the GitLab project {path} are closed.\n"
        "2. In the Plane project '{name}' move the issues with exactly these titles to "
        "Done.\n"
        "3. Skip those that are Cancelled in Plane.\n"
        "4. Leave all others on the board, whose issue is open in GitLab or does not exist "
        "there, and leave GitLab as it is."
    ),
    (
        "Source: the GitLab project {path} (only to read)\n"
        "Target: the Plane project '{name}'\n"
        "Rule: closed there means Done here, where the titles are exactly the same\n"
        "Exception: Cancelled in Plane stays Cancelled\n"
        "Nothing happens to issues that are open in GitLab or not in it."
    ),
    (
        "In the meeting the board '{name}' in Plane was wrong again: things were closed long "
        "ago in {path}, our GitLab project, and still stood as open. Titles are the same in "
        "both, letter by letter. Please move to Done whatever is closed in GitLab, only not "
        "what was Cancelled in Plane. Issues that GitLab has open, or does not have, keep "
        "their states, and in GitLab itself nothing changes."
    ),
    where=("gitlab", "plane"),
)
REPORT_A_SPRINT = wordings(
    ROLE,
    (
        "In the Plane project '{name}', count the issues of the cycle '{sprint}' by their "
        "state. Then post one message in the RocketChat channel #{channel} in this form, "
        "with your numbers: '{sprint}: 4 done, 2 in progress, 1 to do' (the states Done, In "
        "Progress and Todo). Issues of other cycles, or of none, do not count. The issues of "
        "a cycle are at projects/PROJECT/cycles/CYCLE/cycle-issues/."
    ),
    (
        "How far is '{sprint}'? In the Plane project '{name}', the issues of this cycle "
        "(projects/PROJECT/cycles/CYCLE/cycle-issues/) are Done, In Progress or Todo. Count "
        "them and tell #{channel} in RocketChat in one message of this form: '{sprint}: 4 "
        "done, 2 in progress, 1 to do', with your numbers. What is in another cycle or in "
        "none is not counted."
    ),
    (
        "1. List the issues of the cycle '{sprint}' in the Plane project '{name}': "
        "projects/PROJECT/cycles/CYCLE/cycle-issues/.\n"
        "2. Count those in Done, In Progress and Todo. Other cycles, and issues without one, "
        "do not matter.\n"
        "3. Post exactly one message in #{channel} in RocketChat: '{sprint}: 4 done, 2 in "
        "progress, 1 to do', with the right numbers."
    ),
    (
        "Cycle: '{sprint}' of the Plane project '{name}'; its issues are at "
        "projects/PROJECT/cycles/CYCLE/cycle-issues/\n"
        "Report to: #{channel} in RocketChat, one message\n"
        "Form: '{sprint}: 4 done, 2 in progress, 1 to do'\n"
        "The three numbers are issues of that cycle in the states Done, In Progress and "
        "Todo, and of no other."
    ),
    (
        "The team in #{channel} in RocketChat asks how the sprint goes. Answer with one "
        "message, '{sprint}: 4 done, 2 in progress, 1 to do', in which your own numbers "
        "stand for issues in the states Done, In Progress and Todo. They are in the Plane "
        "project '{name}'; projects/PROJECT/cycles/CYCLE/cycle-issues/ has those of the "
        "cycle '{sprint}', and only they count."
    ),
    where=("plane", "rocketchat"),
)
FIND_WHO_TAKES_IT = wordings(
    ROLE,
    (
        "Nobody works on the issue '{task}' of the Plane project '{name}'. Ask {first.name} "
        "(@{first.username}) by direct message in RocketChat whether they can take it, and "
        "by when it would be done; name the issue in full. Whoever cannot may name someone "
        "else: ask that person then. When someone takes it, assign the issue to that person "
        "alone, set its target_date to the day they named, and move it to the state Todo."
    ),
    (
        "Who takes '{task}'? This issue of the Plane project '{name}' belongs to nobody. "
        "Write to {first.name} (@{first.username}) in RocketChat, directly, with its full "
        "name, and ask whether and by when; somebody who has no time may know somebody who "
        "has, whom you ask then. Whoever says yes becomes its only assignee, the day they "
        "say its target_date, and Todo its state."
    ),
    (
        "1. Ask @{first.username} ({first.name}) by direct message in RocketChat: can they "
        "take the issue '{task}', and by when is it done? Name it in full.\n"
        "2. If they cannot and name another person, ask that one.\n"
        "3. In the Plane project '{name}' assign the issue to the person who takes it, "
        "alone, with the named day as target_date, and move it to Todo."
    ),
    (
        "Issue: '{task}' in the Plane project '{name}', so far without anybody\n"
        "First to ask: {first.name} (@{first.username}), by direct message in RocketChat; "
        "then whoever is named instead\n"
        "To ask: whether they take it (say its full name) and until when\n"
        "Then in Plane: the taker as only assignee, their day as target_date, state Todo."
    ),
    (
        "In the Plane project '{name}' there is one issue that no one has taken, '{task}', "
        "and you are to find somebody. Begin with {first.name}, who is @{first.username} in "
        "RocketChat, by direct message, and name the issue in full; ask also by when it can "
        "be done. You may be sent to another person. Once you have a yes and a day, write "
        "both into Plane: that person alone as assignee, the day as target_date, and Todo as "
        "the state."
    ),
    where=("plane", "rocketchat"),
)
