"""Wordings of the tasks of sales and business."""

from practicum_envs.office.families.family_parts import wordings

ROLE = "an assistant in sales"
SHARE_AN_OFFER = wordings(
    ROLE,
    (
        "Share the file {path} of ownCloud with {person.name} (account {person.username}), "
        "to read only, which is permissions=1. Share no other file, and share it with nobody "
        "else. A share is made by a POST to {SHARES} with your login theagentcompany "
        "(password theagentcompany) and the fields path (with a slash in front), "
        "shareType=0, shareWith and permissions."
    ),
    (
        "{person.name} has to see {path}, a file in ownCloud, and must not be able to change "
        "it. Make one share: POST {SHARES} as theagentcompany (password theagentcompany), "
        "with path (a slash in front), shareType=0, shareWith={person.username} and "
        "permissions=1, which is to read only. No other file and no other person."
    ),
    (
        "Share in ownCloud:\n"
        "File: {path}\n"
        "With: {person.name}, account {person.username}\n"
        "Rights: to read only (permissions=1)\n"
        "How: POST to {SHARES} with your login theagentcompany and the password "
        "theagentcompany; fields path (begins with a slash), shareType=0, shareWith, "
        "permissions.\n"
        "Only this file, only this person."
    ),
    (
        "Can you give {person.name} (account {person.username}) access to {path} in "
        "ownCloud? Reading is enough: permissions=1. You do it by a POST to {SHARES} with "
        "the fields path, which begins with a slash, shareType=0, shareWith and permissions; "
        "login and password are theagentcompany. Do not share it with others, nor other "
        "files."
    ),
    (
        "1. Log in as theagentcompany with the password theagentcompany.\n"
        "2. POST to {SHARES}: path is {path} with a slash in front, shareType=0, "
        "shareWith={person.username}, permissions=1.\n"
        "3. That is all: {person.name} can now read this file of ownCloud, change nothing in "
        "it, and sees no other one."
    ),
    where=("owncloud",),
)
RAISE_PRICES = wordings(
    ROLE,
    (
        "The price list {path} in ownCloud has the columns product, group and price. Raise "
        "the price of every product of the group {group} by {percent} percent. Round to two "
        "decimals, half a cent up, and write every price with two decimals. The products of "
        "other groups, the header and the order of the lines stay as they are. Upload the "
        "list under the same path."
    ),
    (
        "From now on everything in the group {group} costs {percent} percent more. In the "
        "price list {path} in ownCloud (product, group, price) work out the new prices, "
        "rounded to two decimals, half a cent up, and always written with two decimals. "
        "Lines of other groups, header and order stay the same. The new list replaces the "
        "old one under its path."
    ),
    (
        "1. Get {path} from ownCloud; its columns are product, group and price.\n"
        "2. Add {percent} percent to each price of the group {group}; two decimals, half a "
        "cent is rounded up.\n"
        "3. Do not change any other line, the header, or the order.\n"
        "4. Upload it to the same path, prices with two decimals."
    ),
    (
        "List: {path} (ownCloud), columns product, group, price\n"
        "Group: {group}\n"
        "Change: plus {percent} percent\n"
        "Rounding: two decimals, half a cent up; each price is written with two decimals\n"
        "Everything else in the file, the other groups' products, header and order, is to be "
        "as before. Put the result where the list was."
    ),
    (
        "Our price list in ownCloud, {path}, has a line for each product with its group and "
        "price. The prices of {group} have to go up by {percent} percent, and only those. "
        "Somebody will compare: a new price has exactly two decimals, half a cent was "
        "rounded up, no line has moved and the header is there. Save it under the path it "
        "has."
    ),
    where=("owncloud",),
)
LIST_FOLLOW_UPS = wordings(
    ROLE,
    (
        "The workbook {path} in ownCloud has our customers: customer, city, status and "
        "last_contact. An xlsx file is a zip file; its sheet is the XML file "
        "xl/worksheets/sheet1.xml in it, with a row element for each line. List the "
        "customers whose status is active and whose last contact was before {limit}, the "
        "oldest contact first, equal days by name. Upload {target} to ownCloud: a csv file "
        "with the header customer,last_contact."
    ),
    (
        "With which active customers has nobody spoken since before {limit}? The workbook "
        "{path} in ownCloud knows: customer, city, status, last_contact. (xlsx is a zip "
        "file; each row element in its xl/worksheets/sheet1.xml is a line.) Write them to a "
        "csv file, header customer,last_contact, oldest contact first, by name where days "
        "are equal, and upload it as {target}."
    ),
    (
        "1. Download {path} from ownCloud. It is an xlsx file, so a zip file; the lines are "
        "row elements in xl/worksheets/sheet1.xml, with customer, city, status and "
        "last_contact.\n"
        "2. Keep customers that are active and were last contacted before {limit}.\n"
        "3. Sort by day, the oldest first, then by name.\n"
        "4. Upload customer,last_contact (this is the header) as csv to {target}."
    ),
    (
        "Wanted: {target} in ownCloud, csv, columns customer,last_contact as the header "
        "says, for sales to call people. Who belongs there: customers of {path} with the "
        "status active whose last_contact is earlier than {limit}; earliest first, ties by "
        "name. The workbook has the columns customer, city, status and last_contact in "
        "xl/worksheets/sheet1.xml of the zip file that an xlsx file is."
    ),
    (
        "Some customers were forgotten. They are in the workbook {path} in ownCloud, where a "
        "line has customer, city, status and last_contact; unzip it and look at the row "
        "elements of xl/worksheets/sheet1.xml. Those who are active and had their last "
        "contact before {limit} come into a csv file named {target}, first "
        "customer,last_contact, then a line each, longest ago first and names in order on "
        "equal days."
    ),
    where=("owncloud",),
)
OUTLINE_A_DECK = wordings(
    ROLE,
    (
        "The presentation {path} in ownCloud needs an outline. A pptx file is a zip file; "
        "its slides are ppt/slides/slide1.xml, slide2.xml and so on, and the first text (an "
        "a:t element) of each is its title. Upload {target} to ownCloud: a text file with "
        "one line for each slide in order, the number, a dot, a space and the title, such as "
        "'1. Sales in Porto'. The other text of the slides does not belong there."
    ),
    (
        "What is the presentation {path} in ownCloud about? Write its outline: for every "
        "slide, in order, a line with its number, a dot, a space and its title, like '1. "
        "Sales in Porto', in a text file that you upload as {target}. The slides are "
        "ppt/slides/slide1.xml, slide2.xml ... in the zip file that a pptx file is; the "
        "first a:t element is the title, other text is left out."
    ),
    (
        "1. Download {path} from ownCloud and unzip it; a pptx file is a zip file.\n"
        "2. In ppt/slides/slide1.xml, slide2.xml and so on the first a:t element is a "
        "slide's title. Ignore the rest.\n"
        "3. Make a text file with a line for each slide: '1. Sales in Porto', so number, "
        "dot, space, title.\n"
        "4. Upload it to ownCloud as {target}."
    ),
    (
        "Input: {path} in ownCloud (a pptx file, which is a zip file with "
        "ppt/slides/slide1.xml, slide2.xml, ...). Output: {target} in ownCloud, plain text, "
        "one line a slide in the order of the slides. A line is the slide's number, a dot, a "
        "space and its title, such as '1. Sales in Porto'. The title is the text of the "
        "first a:t element; nothing else of a slide is wanted."
    ),
    (
        "Nobody has time to open {path}. Please put a short text beside it in ownCloud, "
        "{target}, in which each slide's title stands on a line of its own after number, dot "
        "and space: '1. Sales in Porto'. You find the slides in order as "
        "ppt/slides/slide1.xml, slide2.xml, ... inside the file (unzip it), and the title in "
        "the first a:t of each. Other text of a slide does not count."
    ),
    where=("owncloud",),
)
QUOTE_A_CUSTOMER = wordings(
    ROLE,
    (
        "In ownCloud, Sales/letter.docx is a letter in which a customer asks for a quote, "
        "and Sales/prices.csv has the price of one piece of each product in EUR. A docx file "
        "is a zip file with its text in word/document.xml. Work out the price of all that "
        "the customer asks for. Then send the Sales Director, {boss.name} "
        "(@{boss.username}), one direct message in RocketChat in this form, with the name of "
        "the customer as in the letter: 'Quote for Acme: 1234 EUR'."
    ),
    (
        "A customer's letter, Sales/letter.docx in ownCloud, asks for a quote. What does all "
        "of it cost by Sales/prices.csv, in which a price is that of one piece in EUR? Tell "
        "the Sales Director, {boss.name} (@{boss.username}), in one direct message in "
        "RocketChat: 'Quote for Acme: 1234 EUR', with the customer's name from the letter. "
        "The text of a docx file is word/document.xml in the zip file."
    ),
    (
        "1. Read Sales/letter.docx in ownCloud (unzip it: word/document.xml): who writes, "
        "and how many of what.\n"
        "2. Look up each product's price for one piece in Sales/prices.csv, in EUR.\n"
        "3. Add it all up.\n"
        "4. Send {boss.name}, our Sales Director, @{boss.username} in RocketChat, exactly "
        "one direct message in this form, with the name as in the letter: 'Quote for Acme: "
        "1234 EUR'."
    ),
    (
        "To: {boss.name}, Sales Director (@{boss.username}), by direct message in "
        "RocketChat, once.\n"
        "Text: 'Quote for Acme: 1234 EUR' with the right customer and amount.\n"
        "The customer's name and wishes are in the letter Sales/letter.docx in ownCloud, "
        "whose text is in word/document.xml (docx is zip); the price of a piece of each "
        "product, in EUR, in Sales/prices.csv."
    ),
    (
        "{boss.name} is waiting for a number. In ownCloud there is a letter from a customer, "
        "Sales/letter.docx, with what they want and how many, and our prices for one piece "
        "in EUR, Sales/prices.csv. Work out the sum and send it to @{boss.username} (the "
        "Sales Director) in RocketChat as one direct message that reads like 'Quote for "
        "Acme: 1234 EUR', the name spelled as in the letter. Unzip the docx file and read "
        "word/document.xml."
    ),
    where=("owncloud", "rocketchat"),
)
GRANT_A_DISCOUNT = wordings(
    ROLE,
    (
        "{customer} wants {count} x {item}. Sales/prices.csv in ownCloud has the price of "
        "one piece. {boss.name} (@{boss.username}) knows the customer's discount in percent, "
        "{maker.name} (@{maker.username}) the day of delivery; ask them by direct message in "
        "RocketChat. Then upload {target} to ownCloud: a JSON object with the keys customer, "
        "total (the price of all pieces less the discount, a number with at most two "
        "decimals) and delivery (the day, such as 2026-05-31)."
    ),
    (
        "An offer for {customer}, who wants {count} x {item}: what does it cost less their "
        "discount, and when can we deliver? The price of a piece is in Sales/prices.csv in "
        "ownCloud. In RocketChat, by direct message, {boss.name} (@{boss.username}) tells "
        "the discount in percent and {maker.name} (@{maker.username}) the day. Upload "
        "{target}: JSON with customer, total (a number of at most two decimals) and delivery "
        "(like 2026-05-31)."
    ),
    (
        "1. Take the price of one {item} from Sales/prices.csv in ownCloud.\n"
        "2. Ask {boss.name}, @{boss.username} in RocketChat, for the discount of {customer} "
        "in percent, and {maker.name}, @{maker.username}, for the day on which {count} "
        "pieces are delivered. Use direct messages.\n"
        "3. Upload {target} to ownCloud, a JSON object: customer, total (all pieces less the "
        "discount, at most two decimals), delivery (as 2026-05-31)."
    ),
    (
        "Customer: {customer}\n"
        "Goods: {count} x {item}, price of a piece in Sales/prices.csv (ownCloud)\n"
        "Discount in percent: {boss.name} knows it (@{boss.username})\n"
        "Delivery: {maker.name} knows the day (@{maker.username})\n"
        "Ask both by direct message in RocketChat. The offer is {target} in ownCloud, a JSON "
        "object with exactly customer, total, a number with no more than two decimals after "
        "the discount, and delivery, a day such as 2026-05-31."
    ),
    (
        "The file {target} in ownCloud shall be our offer to {customer} for {count} x "
        "{item}: a JSON object whose keys are customer, total and delivery. The total is a "
        "number, pieces times price (Sales/prices.csv) less a discount that {boss.name} will "
        "tell you in percent, with two decimals at most. The delivery is a day like "
        "2026-05-31, which {maker.name} has to say. Write to @{boss.username} and "
        "@{maker.username} in RocketChat, to each directly."
    ),
    where=("owncloud", "rocketchat"),
)
