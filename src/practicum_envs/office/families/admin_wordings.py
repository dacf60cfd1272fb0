"""Wordings of the tasks of the front desk."""

from practicum_envs.office.families.family_parts import wordings

ROLE = "the office assistant"
SET_A_TOPIC = wordings(
    ROLE,
    (
        "Set the topic of the RocketChat channel #{channel} to this text, word for word:\n"
        "{topic}\n"
        "The topic is the line under a channel's name; do not post a message. The route is "
        "POST channels.setTopic with the fields roomName and topic. The topics of all other "
        "channels stay as they are, and no channel is renamed or made."
    ),
    (
        "The RocketChat channel #{channel} needs a new topic, the line that stands under its "
        "name:\n"
        "{topic}\n"
        "Copy it word for word. POST channels.setTopic takes the fields roomName and topic. "
        "It is not a message: nothing is posted. No other channel gets a topic, is renamed "
        "or made."
    ),
    (
        "Channel: #{channel} (RocketChat)\n"
        "New topic: {topic}\n"
        "Please set exactly this text as the channel's topic, by POST channels.setTopic with "
        "roomName and topic. All other topics stay, no channel is made or renamed, and no "
        "message is sent."
    ),
    (
        "When people open #{channel} in RocketChat they should read this under its name, "
        "letter by letter:\n"
        "{topic}\n"
        "So change the topic of this one channel: route POST channels.setTopic, fields "
        "roomName and topic. Do not post it as a message, and leave the topics and names of "
        "all other channels alone."
    ),
    (
        "1. Take this line as it is: {topic}\n"
        "2. Make it the topic of #{channel} in RocketChat (POST channels.setTopic, with "
        "roomName and topic).\n"
        "3. Post nothing: a topic is the line under a channel's name. The other channels "
        "keep their names and topics, and there is no new one."
    ),
    where=("rocketchat",),
)
BOOK_A_ROOM = wordings(
    ROLE,
    (
        "{owner} needs a meeting room on {day} at {start} for {needed} people.\n"
        "The file Rooms/rooms.csv in ownCloud has every room with its seats, the file {path} "
        "has the bookings; a booking lasts one hour. Book the smallest room that has enough "
        "seats and is free then: add one line at the end of the bookings, with date, start, "
        "room and booked_by ({owner}), and upload the file under the same path."
    ),
    (
        "Which room is the smallest that has {needed} seats or more and is free on {day} at "
        "{start}? Book it for {owner}. Rooms and their seats are in Rooms/rooms.csv in "
        "ownCloud, bookings of one hour each in {path}. A booking is one line more at the "
        "end of that file (date, start, room, booked_by: {owner}); upload it under the same "
        "path."
    ),
    (
        "Meeting of {owner}: {day}, {start}, {needed} people.\n"
        "In ownCloud there are Rooms/rooms.csv (rooms and seats) and {path} (what is booked, "
        "one hour each). Choose among the rooms that are large enough and not booked at that "
        "time the smallest one. Then append the line with date, start, room and booked_by, "
        "which is {owner}, and upload the file to where it was."
    ),
    (
        "1. Download Rooms/rooms.csv and {path} from ownCloud: seats of the rooms, and "
        "bookings of an hour each.\n"
        "2. Find the rooms for {needed} people that nobody has on {day} at {start}.\n"
        "3. Of those take the smallest, add a line at the end of the bookings (date, start, "
        "room, booked_by {owner}) and upload the file under its old path."
    ),
    (
        "{owner} has {needed} people coming on {day} at {start} and no room yet. A room that "
        "is too large is a waste: it has to be the smallest with enough seats "
        "(Rooms/rooms.csv in ownCloud) that is not taken in {path}, where each line is a "
        "booking of one hour. Write the booking as a new last line, date, start, room and "
        "booked_by ({owner}), and put the file back under the same path."
    ),
    where=("owncloud",),
)
FILE_THE_LETTERS = wordings(
    ROLE,
    (
        "The folder {inbox} in ownCloud has letters. The name of each begins with its date, "
        "such as 2024-03-19-lumen.txt. Move every letter from before {limit} into the folder "
        "of its year: Archive/2023, Archive/2024 and so on, under the same name. Letters of "
        "{limit} and later stay in {inbox}. The folders of the years are there already. Do "
        "not change what is in the letters, and leave no copies behind."
    ),
    (
        "{inbox} in ownCloud is full of letters whose names begin with their dates "
        "(2024-03-19-lumen.txt). Whatever is from before {limit} belongs in the archive: "
        "into the folder of its year, Archive/2023, Archive/2024 and so on, which exist, "
        "with its name and content as they are. Leave letters of {limit} or later where they "
        "lie, and no copies in {inbox}."
    ),
    (
        "1. List the folder {inbox} in ownCloud; a letter's name starts with its date, as in "
        "2024-03-19-lumen.txt.\n"
        "2. Move those older than {limit} to the year's folder, Archive/2023, "
        "Archive/2024 ..., with the same name. "
        "These folders are there.\n"
        "3. Do not touch the letters of {limit} and after it. Nothing is copied, and no "
        "content changes."
    ),
    (
        "From: {inbox} in ownCloud. To: Archive/2023, Archive/2024, ... (all of them are "
        "there). What: every letter from before {limit}; its date is the beginning of its "
        "name, such as 2024-03-19-lumen.txt, and says which year's folder is right. The name "
        "stays. Letters from {limit} on remain in {inbox}; no letter may be changed or be in "
        "two places."
    ),
    (
        "Could you tidy up the letters in {inbox}, a folder of ownCloud? By the date at the "
        "beginning of the name (2024-03-19-lumen.txt) you see the year. All that were "
        "written before {limit} go to Archive/2023, Archive/2024 and so on, "
        "each to its year's folder, which is "
        "there already, without a new name or other text. Those of {limit} and later stay, "
        "and nothing is left double."
    ),
    where=("owncloud",),
)
COLLECT_SUPPLIES = wordings(
    ROLE,
    (
        "In the RocketChat channel #{channel} people have asked for supplies, such as "
        "'Please order 3 x marker.' One of them cancelled later: leave out all of that "
        "person's order. Add up the rest by item and write a csv file with the header "
        "item,quantity and one line for each item that is wanted, sorted by item. Upload it "
        "to ownCloud as {path}. Do not answer in the channel."
    ),
    (
        "People wrote their wishes into #{channel} in RocketChat, in the form 'Please order "
        "3 x marker.'; one of them took the whole order back later, so nothing of that "
        "person counts. What is left, added up by item, belongs in a csv file in ownCloud, "
        "{path}: header item,quantity, then a line for every item that is wanted, in the "
        "order of the items' names. Write nothing in the channel."
    ),
    (
        "1. Read the channel #{channel} of RocketChat: requests look like 'Please order 3 x "
        "marker.'\n"
        "2. Somebody cancelled: drop everything this person asked for.\n"
        "3. Add up the pieces of each item.\n"
        "4. Upload {path} to ownCloud, a csv file with the header item,quantity, sorted by "
        "item, with the items that are wanted.\n"
        "Nobody needs an answer in the channel."
    ),
    (
        "What do we have to order? In RocketChat's #{channel} there is a message for each "
        "wish ('Please order 3 x marker.'), among other talk, and one person's cancellation, "
        "which is for all that this person wanted. The sums by item go to ownCloud as "
        "{path}, csv, with item,quantity as the first line and the items in alphabetical "
        "order; items that nobody wants any more are left out. Do not reply there."
    ),
    (
        "The order of supplies is due. Result: {path} in ownCloud, a csv file whose header "
        "is item,quantity and which has one line for each item, sorted by item. Source: the "
        "messages in #{channel} (RocketChat) like 'Please order 3 x marker.' Catch: someone "
        "cancelled, and then none of that person's wishes counts. The channel itself is only "
        "read, not written to."
    ),
    where=("rocketchat", "owncloud"),
)
ORDER_EQUIPMENT = wordings(
    ROLE,
    (
        "Order {count} x {item}. {clerk.name} (@{clerk.username}) knows what one costs, but "
        "not which cost center pays; {boss.name} (@{boss.username}) knows that. Ask them by "
        "direct message in RocketChat. Then upload the order to ownCloud as {path}: a csv "
        "file with the header item,quantity,unit_price,total,cost_center and one line, the "
        "amounts with two decimals."
    ),
    (
        "We need {count} x {item}. Two things are missing. The price of one: ask "
        "{clerk.name} (@{clerk.username}), who does not know who pays. The cost center: ask "
        "{boss.name} (@{boss.username}). Both answer direct messages in RocketChat. The "
        "order is a csv file, {path} in ownCloud, with the header "
        "item,quantity,unit_price,total,cost_center and one line; amounts have two decimals."
    ),
    (
        "Goal: {path} in ownCloud, csv, first line "
        "item,quantity,unit_price,total,cost_center, second line our order of {count} x "
        "{item} with amounts of two decimals. You get the price from {clerk.name} "
        "(@{clerk.username}) and, knowing what it comes to, the cost center from {boss.name} "
        "(@{boss.username}), by direct messages in RocketChat."
    ),
    (
        "1. Ask @{clerk.username} ({clerk.name}) in a direct message in RocketChat what one "
        "{item} costs.\n"
        "2. Ask @{boss.username} ({boss.name}) in the same way which cost center pays for "
        "the order.\n"
        "3. Upload {path} to ownCloud with the columns "
        "item,quantity,unit_price,total,cost_center, that header, and one line for {count} x "
        "{item}. Write amounts like 12.50."
    ),
    (
        "{count} x {item} shall be ordered. For that the file {path} in ownCloud has to hold "
        "one line under the header item,quantity,unit_price,total,cost_center, both amounts "
        "with two decimals. {clerk.name} knows prices and {boss.name} knows cost centers: "
        "their accounts in RocketChat are @{clerk.username} and @{boss.username}; write to "
        "each directly."
    ),
    where=("rocketchat", "owncloud"),
)
