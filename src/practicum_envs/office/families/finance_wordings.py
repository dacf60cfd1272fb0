"""Wordings of the tasks of the finance team."""

from practicum_envs.office.families.family_parts import wordings

ROLE = "an accountant"
COUNT_AN_INVOICE = wordings(
    ROLE,
    (
        "The file {path} in ownCloud is an invoice; each line that begins with Item has an "
        "amount in EUR. Add up the amounts and write the total to /workspace/total.txt on "
        "your machine: the number with two decimals, such as 1234.50, and nothing else. "
        "`office files get PATH` downloads a file into the workspace. Leave the files in "
        "ownCloud as they are."
    ),
    (
        "What does the invoice {path} in ownCloud come to? Its lines that begin with Item "
        "end with an amount in EUR. Put the total, and nothing else, into "
        "/workspace/total.txt on your machine, with two decimals as in 1234.50. `office "
        "files get PATH` brings a file into the workspace; in ownCloud nothing is changed."
    ),
    (
        "1. Download {path} from ownCloud into the workspace: `office files get PATH`.\n"
        "2. Add up the amounts in EUR of all lines that begin with Item.\n"
        "3. Write the sum to /workspace/total.txt on your machine, as a number with two "
        "decimals, such as 1234.50, and without anything else.\n"
        "The files in ownCloud stay as they are."
    ),
    (
        "Invoice: {path} (ownCloud; `office files get PATH` puts it into the workspace)\n"
        "To add up: the amounts in EUR on the lines that begin with Item\n"
        "Result: /workspace/total.txt on your machine, the number alone, two decimals, for "
        "example 1234.50\n"
        "OwnCloud is to be as it was."
    ),
    (
        "Please check an invoice. In the text file {path} in ownCloud every line that begins "
        "with Item has an amount in EUR; we need the sum of them as a number with two "
        "decimals (1234.50) in /workspace/total.txt on your machine, and no other text "
        "there. Use `office files get PATH` for the download into the workspace and do not "
        "change the files in ownCloud."
    ),
    where=("owncloud",),
)
REJECT_EXPENSES = wordings(
    ROLE,
    (
        "In ownCloud, Finance/expenses.csv has expenses (id, person, kind, amount) and "
        "Finance/limits.json the limit of each kind. An expense is rejected when its amount "
        "is higher than its limit; exactly the limit is fine. Write the rejected ones to a "
        "csv file with the header id,person,kind,amount,over, in the order of the expenses, "
        "where over is the amount above the limit. Upload it to ownCloud as {target}."
    ),
    (
        "Which expenses are too high? Finance/expenses.csv in ownCloud lists them (id, "
        "person, kind, amount), Finance/limits.json has a limit for each kind. More than the "
        "limit is rejected, exactly the limit is not. Upload the rejected ones as {target}, "
        "csv, in the same order, with the header id,person,kind,amount,over; over is by how "
        "much the limit is exceeded."
    ),
    (
        "1. Get Finance/expenses.csv (id, person, kind, amount) and Finance/limits.json (a "
        "limit for every kind) from ownCloud.\n"
        "2. Reject what is above the limit of its kind; what equals it passes.\n"
        "3. Write a csv file with the header id,person,kind,amount,over: the rejected "
        "expenses in the order they have, and amount minus limit.\n"
        "4. Upload it as {target}."
    ),
    (
        "Expenses: Finance/expenses.csv (id, person, kind, amount)\n"
        "Limits by kind: Finance/limits.json\n"
        "Rejected: {target}\n"
        "All are in ownCloud. The last is a csv file you make, header "
        "id,person,kind,amount,over, with a line for each expense whose amount is higher "
        "than its limit (not for those that reach it exactly) and the difference as over. "
        "Keep the order."
    ),
    (
        "{target} in ownCloud shall show what we do not pay: the expenses of "
        "Finance/expenses.csv (columns id, person, kind, amount) that are over the limit of "
        "their kind in Finance/limits.json. An amount equal to the limit is fine. It is a "
        "csv file that begins with id,person,kind,amount,over and keeps the order of the "
        "expenses; in the column over stands how much is too much."
    ),
    where=("owncloud",),
)
CONVERT_CURRENCIES = wordings(
    ROLE,
    (
        "In ownCloud, Finance/payments.csv has payments (id, currency, amount) and "
        "Finance/rates.csv says how many EUR one unit of each currency is. Convert every "
        "payment to EUR and round it to two decimals, half a cent up. Write a csv file with "
        "the header id,eur, a line for each payment in the same order, and a last line with "
        "the id total and the sum of the rounded amounts; every amount with two decimals. "
        "Upload it to ownCloud as {target}."
    ),
    (
        "What are our payments in EUR? Finance/payments.csv in ownCloud has id, currency and "
        "amount, Finance/rates.csv how many EUR a unit of each currency is. Upload {target}, "
        "a csv file with the header id,eur: every payment in the same order, converted and "
        "rounded to two decimals (half a cent up), then a line with the id total and the sum "
        "of these rounded amounts. Always write two decimals."
    ),
    (
        "1. Download Finance/payments.csv (id, currency, amount) and Finance/rates.csv (EUR "
        "for one unit of a currency) from ownCloud.\n"
        "2. Convert each payment, round to two decimals, half a cent up.\n"
        "3. Write id,eur as the header, the payments in their order, and total with the sum "
        "of the rounded amounts as the last line; two decimals everywhere.\n"
        "4. Upload this csv file as {target}."
    ),
    (
        "From: Finance/payments.csv (id, currency, amount), Finance/rates.csv (one unit in "
        "EUR)\n"
        "To: {target}, csv, header id,eur\n"
        "Rounding: each payment to two decimals, half a cent up\n"
        "Last line: total, and the sum of what was rounded\n"
        "All files are in ownCloud. The payments keep their order, and every amount is "
        "written with two decimals."
    ),
    (
        "The accountants count in EUR alone. Take the payments in Finance/payments.csv in "
        "ownCloud (id, currency, amount), multiply by the rate of Finance/rates.csv, which "
        "says what one unit is in EUR, and round each to two decimals; half a cent goes up. "
        "The result is a csv file with id,eur in its first line, a line for each payment in "
        "the given order and a last one, total, with the sum of the rounded values, two "
        "decimals in all of them. Its place is {target}."
    ),
    where=("owncloud",),
)
CHASE_A_PAYMENT = wordings(
    ROLE,
    (
        "In ownCloud, {folder}/invoices.csv has invoices (invoice, customer, owner, amount) "
        "and {folder}/payments.csv what was paid; an invoice may be paid in several parts. "
        "Exactly one invoice is not paid in full. Send its owner, whose RocketChat username "
        "is in the column owner, one direct message in this form, with the number of the "
        "invoice and the amount that is missing: 'INV-1234 is not paid in full: 250 EUR are "
        "open.'"
    ),
    (
        "One invoice, and only one, has not been paid in full: which, and how much is open? "
        "{folder}/invoices.csv in ownCloud has invoice, customer, owner and amount, "
        "{folder}/payments.csv the payments, of which an invoice may have several. Tell the "
        "owner (the column has the RocketChat username) in one direct message: 'INV-1234 is "
        "not paid in full: 250 EUR are open.', with the right number and amount."
    ),
    (
        "1. Get {folder}/invoices.csv (invoice, customer, owner, amount) and "
        "{folder}/payments.csv from ownCloud. An invoice may be paid in parts.\n"
        "2. Find the only one whose payments do not come to its amount.\n"
        "3. Write to its owner, whose username in RocketChat is in the column owner, once "
        "and directly, in this form: 'INV-1234 is not paid in full: 250 EUR are open.'"
    ),
    (
        "Invoices: {folder}/invoices.csv (invoice, customer, owner, amount)\n"
        "Payments: {folder}/payments.csv; several may be for one invoice\n"
        "Both are in ownCloud. Exactly one invoice is short of money. Its owner, who is "
        "named in the file by the RocketChat username, gets one direct message with its "
        "number and the missing amount: 'INV-1234 is not paid in full: 250 EUR are open.'"
    ),
    (
        "Somebody still owes us something. Compare in ownCloud what was invoiced "
        "({folder}/invoices.csv: invoice, customer, owner, amount) with what came in "
        "({folder}/payments.csv, in parts sometimes). For the one invoice that is not "
        "covered, send a single direct message in RocketChat to the username in its column "
        "owner. It reads 'INV-1234 is not paid in full: 250 EUR are open.', but with that "
        "invoice's number and what is missing."
    ),
    where=("owncloud", "rocketchat"),
)
GET_A_BUDGET_APPROVED = wordings(
    ROLE,
    (
        "The document {path} in ownCloud asks for money for a project (a docx file is a zip "
        "file with the text in word/document.xml). Get it approved by direct messages in "
        "RocketChat: {planner.name} (@{planner.username}) knows budget numbers, {boss.name} "
        "(@{boss.username}) approves and gives a code. Then upload {target} to ownCloud: a "
        "csv file with the header project,amount,budget,approval and one line; the amount is "
        "a whole number."
    ),
    (
        "{path} in ownCloud is a request for money, a docx file (a zip file; the text is in "
        "word/document.xml). Before it can be recorded it needs a budget number, from "
        "{planner.name} (@{planner.username}), and an approval with a code, from {boss.name} "
        "(@{boss.username}); ask them by direct messages in RocketChat. The record is "
        "{target} in ownCloud: csv, header project,amount,budget,approval, one line, the "
        "amount as a whole number."
    ),
    (
        "1. Read {path} in ownCloud, a docx file: unzip it and see word/document.xml for the "
        "project and the amount.\n"
        "2. Ask {planner.name}, @{planner.username} in RocketChat, for the budget number.\n"
        "3. Ask {boss.name}, @{boss.username}, to approve it; there will be a code. Both by "
        "direct message.\n"
        "4. Upload {target}, csv with project,amount,budget,approval as header and one line; "
        "the amount is a whole number."
    ),
    (
        "Request: {path} (ownCloud, docx, so a zip file with word/document.xml)\n"
        "Budget numbers: {planner.name} (@{planner.username})\n"
        "Approval and its code: {boss.name} (@{boss.username})\n"
        "Both answer direct messages in RocketChat. Record: {target} (ownCloud, csv), one "
        "line under the header project,amount,budget,approval, with the amount as a whole "
        "number."
    ),
    (
        "Can you get this project its money? Who wants how much is in the document {path} in "
        "ownCloud; the text of a docx file is word/document.xml in it. {boss.name} has to "
        "approve and gives you a code, {planner.name} knows which budget it comes from: "
        "write to @{boss.username} and @{planner.username} in RocketChat directly. In the "
        "end {target} in ownCloud has the header project,amount,budget,approval and below it "
        "one line, with a whole number as the amount."
    ),
    where=("owncloud", "rocketchat"),
)
