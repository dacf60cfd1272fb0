"""Wordings of the tasks of human resources."""

from practicum_envs.office.families.family_parts import wordings

ROLE = "an assistant in human resources"
WRITE_TO_A_ROLE = wordings(
    ROLE,
    (
        "Send the {job} of the company a direct message in RocketChat, word for word:\n"
        "{text}\n"
        "The bio of every account in RocketChat says the job of the person; the route "
        "users.list shows all accounts (count=0 for all at once). A direct message goes to "
        "the channel @ with the username, such as @ann_lee. Send it once, to this person "
        "only."
    ),
    (
        "Who is our {job}? That person has to get this direct message in RocketChat, word "
        "for word and once, and nobody else:\n"
        "{text}\n"
        "The route users.list shows all accounts (count=0 for all at once), and the bio of "
        "each says the job. Post to the channel @ with the username, such as @ann_lee."
    ),
    (
        "To: the {job} of the company, by direct message in RocketChat\n"
        "Text, word for word: {text}\n"
        "The bio of each account says the person's job; users.list with count=0 lists all "
        "accounts. A direct message is sent to @ and the username as channel, such as "
        "@ann_lee. Once is enough, and to this person only."
    ),
    (
        "1. Find the {job}: users.list in RocketChat (count=0 for all at once) has every "
        "account with a bio that says the job.\n"
        "2. Send this to that account, and to no other, exactly as it is:\n"
        "{text}\n"
        "For a direct message the channel is @ and the username, such as @ann_lee. Send it "
        "one time."
    ),
    (
        "This is for the {job} alone:\n"
        "{text}\n"
        "Please send it in RocketChat as one direct message, word for word, to the channel @ "
        "with the person's username, such as @ann_lee. You know who it is by the bio of the "
        "accounts, which the route users.list shows (count=0 for all at once)."
    ),
    where=("rocketchat",),
)
COUNT_LEAVE = wordings(
    ROLE,
    (
        "In ownCloud, HR/entitled.csv says how many days of leave each person has in a year, "
        "and HR/leave.csv which leave was asked for (person, from, days, status). Only "
        "approved leave counts. Work out how many days each person has left. Write a csv "
        "file with the header person,left and a line for every person of HR/entitled.csv, "
        "sorted by person, and upload it to ownCloud as {target}."
    ),
    (
        "How many days of leave does everybody have left? HR/entitled.csv in ownCloud has "
        "the days of a year by person, HR/leave.csv what was asked for (person, from, days, "
        "status), of which only the approved counts. Upload {target}, a csv file with the "
        "header person,left and a line for each person in HR/entitled.csv, sorted by person."
    ),
    (
        "1. Get HR/entitled.csv (days of leave a year, by person) and HR/leave.csv (person, "
        "from, days, status) from ownCloud.\n"
        "2. Subtract the days of approved leave, and of no other.\n"
        "3. Write person,left as header and everyone of HR/entitled.csv, also who took none, "
        "sorted by person.\n"
        "4. Upload it as csv to {target}."
    ),
    (
        "Entitled: HR/entitled.csv, days in a year for each person\n"
        "Asked for: HR/leave.csv, with person, from, days and status\n"
        "Left: {target}, which you make\n"
        "All three are csv files in ownCloud. Leave that was not approved does not count. "
        "The new file has the header person,left, and everybody who is in HR/entitled.csv, "
        "by name from a to z."
    ),
    (
        "The year's leave has to be counted. In ownCloud you find what each person may take "
        "(HR/entitled.csv) and what they asked for (HR/leave.csv: person, from, days, "
        "status). Take off what has the status approved; declined or open requests change "
        "nothing. Please upload what remains as {target}: a csv file, first line "
        "person,left, then a line for every person of HR/entitled.csv in order."
    ),
    where=("owncloud",),
)
SCREEN_APPLICANTS = wordings(
    ROLE,
    (
        "The folder Applications in ownCloud has a PDF file for each applicant, with lines "
        "like 'Name: Ada Berg', 'Experience: 4 years' and 'Skills: Java, SQL'. The text in "
        "these files is not compressed; grep and Python find it in brackets before Tj. "
        "Invite everyone who has the skill {skill} and at least {least} years of experience. "
        "Make the folder HR and upload {target}: the names of those who are invited, one a "
        "line, sorted."
    ),
    (
        "Whom do we invite? Whoever knows {skill} and has {least} years of experience or "
        "more. Each applicant has a PDF file in the folder Applications in ownCloud with "
        "lines such as 'Name: Ada Berg', 'Experience: 4 years', 'Skills: Java, SQL'; the "
        "text is not compressed and stands in brackets before Tj, where grep and Python find "
        "it. Make the folder HR there and upload {target}: their names, one a line, sorted."
    ),
    (
        "1. Read the PDF files in Applications in ownCloud, one for each applicant. Their "
        "text is in brackets before Tj, uncompressed (grep or Python): 'Name: Ada Berg', "
        "'Experience: 4 years', 'Skills: Java, SQL'.\n"
        "2. Choose those with the skill {skill} and at least {least} years.\n"
        "3. Make the folder HR.\n"
        "4. Upload the names, sorted, a line each, as {target}."
    ),
    (
        "Applications: PDF files in the folder of that name in ownCloud, one a person; "
        "'Name: Ada Berg', 'Experience: 4 years', 'Skills: Java, SQL' and more stand "
        "uncompressed in brackets before Tj\n"
        "Needed: {skill}, and {least} years of experience at the least\n"
        "Result: a new folder HR, and in it {target} with the names of the invited, each on "
        "its own line, in order."
    ),
    (
        "The folder Applications in ownCloud is full of PDF files and we look for somebody "
        "with {skill}. Fewer than {least} years of experience are too few; {least} are "
        "enough. You need no PDF reader: lines like 'Name: Ada Berg', 'Experience: 4 years' "
        "and 'Skills: Java, SQL' are in brackets before Tj, and grep or Python see them. "
        "Write the names of all who fit to {target}, sorted, one a line; the folder HR has "
        "to be made first."
    ),
    where=("owncloud",),
)
ONBOARD_A_NEWCOMER = wordings(
    ROLE,
    (
        "{new.name} starts today. Make a RocketChat account (POST users.create) and a GitLab "
        "account (POST users), both with the username {new.username}, the name {new.name}, "
        "the address {new.email} and the password {password}. Invite the new account to the "
        "channel #{channel} and to no other channel. Add it to the GitLab project {project} "
        "as a {role} (access_level {level})."
    ),
    (
        "{new.name} needs two accounts, in RocketChat (POST users.create) and in GitLab "
        "(POST users): username {new.username}, name {new.name}, address {new.email}, "
        "password {password}. With the first one goes an invitation to #{channel}, and to no "
        "other channel; with the second a membership of the GitLab project {project} as "
        "{role}, which is access_level {level}."
    ),
    (
        "1. POST users.create in RocketChat: name {new.name}, username {new.username}, "
        "address {new.email}, password {password}.\n"
        "2. Invite this account to #{channel} and to no other channel.\n"
        "3. POST users in GitLab with the same name, username, address and password.\n"
        "4. Add it to the project {project} as a {role} (access_level {level})."
    ),
    (
        "Newcomer: {new.name}\n"
        "Username: {new.username}\n"
        "Address: {new.email}\n"
        "Password: {password}\n"
        "Accounts: RocketChat (POST users.create), GitLab (POST users)\n"
        "Channel: #{channel}, by invitation, no other one\n"
        "Project: {project} in GitLab, as {role} (access_level {level})\n"
        "Please set all of this up today, an ordinary account in both."
    ),
    (
        "Tomorrow {new.name} wants to begin. By then the username {new.username} has to "
        "exist in RocketChat and in GitLab, with this name, the address {new.email} and the "
        "password {password} (routes: POST users.create, and POST users). The person works "
        "in the GitLab project {project}, so is a {role} there, access_level {level}, and "
        "reads #{channel} in RocketChat, so is invited to it, and to nothing else."
    ),
    where=("rocketchat", "gitlab"),
)
COLLECT_LOCKER_NUMBERS = wordings(
    ROLE,
    (
        "For the job {reason} we need the locker numbers of {first.name} (@{first.username}) "
        "and {second.name} (@{second.username}). Ask them by direct message in RocketChat "
        "and say what it is for. Whoever does not know may name someone who does; ask that "
        "person then. When you have both numbers, upload {target} to ownCloud: a csv file "
        "with the header person,locker and a line for each of the two, username and number, "
        "{first.username} first."
    ),
    (
        "Which lockers do {first.name} (@{first.username}) and {second.name} "
        "(@{second.username}) have? We need the numbers for the job {reason}, so say that "
        "when you ask, by direct message in RocketChat. Somebody who does not know may send "
        "you to somebody who does. The result is a csv file in ownCloud, {target}, with the "
        "header person,locker and two lines of username and number, {first.username} first."
    ),
    (
        "1. Ask @{first.username} ({first.name}) and @{second.username} ({second.name}) in "
        "RocketChat, each by direct message, for their locker numbers, and say that it is "
        "for {reason}.\n"
        "2. If one of them names another person who knows, ask that one.\n"
        "3. Upload {target} to ownCloud: person,locker as the header, then {first.username} "
        "and the number, then {second.username} and the number, as csv."
    ),
    (
        "Job: {reason}\n"
        "People: {first.name} (@{first.username}), {second.name} (@{second.username})\n"
        "Wanted: the number of each one's locker\n"
        "How: direct messages in RocketChat in which you say what it is for; where you are "
        "sent on, ask there\n"
        "Result: {target} in ownCloud, csv, header person,locker, a line each with the "
        "username, in the order above."
    ),
    (
        "The job {reason} cannot begin before we know two lockers, that of {first.name} and "
        "that of {second.name}. They are @{first.username} and @{second.username} in "
        "RocketChat; write to them directly and tell them why you ask. It may be that only a "
        "third person knows: then ask there. Both numbers go into a csv file, {target} in "
        "ownCloud, under person,locker: first {first.username}, then {second.username}."
    ),
    where=("rocketchat", "owncloud"),
)
