"""Wordings of the tasks of a data analyst."""

from practicum_envs.office.families.family_parts import wordings

ROLE = "a data analyst"
ADD_UP_A_COLUMN = wordings(
    ROLE,
    (
        "The file {path} in ownCloud is a csv file with a header; each line is a day. Add up "
        "the column {value1} and write the sum, a whole number and nothing else, to "
        "/workspace/total.txt on your machine. `office files get PATH` downloads a file into "
        "the workspace; awk and python3 are on your machine. Leave the files in ownCloud as "
        "they are."
    ),
    (
        "What is the sum of the column {value1} in {path}, a csv file with a header in "
        "ownCloud, where each line is a day? Put the whole number, and only it, into "
        "/workspace/total.txt on your machine. awk and python3 are there; `office files get "
        "PATH` brings a file to the workspace. Nothing in ownCloud is changed."
    ),
    (
        "File: {path} in ownCloud (csv, with a header, a line a day)\n"
        "Column: {value1}\n"
        "Result: the sum as a whole number, nothing more, in /workspace/total.txt on your "
        "machine\n"
        "`office files get PATH` downloads a file into the workspace, where you have awk and "
        "python3. The files in ownCloud are only read."
    ),
    (
        "1. `office files get PATH` downloads {path} from ownCloud into the workspace: a csv "
        "file with a header.\n"
        "2. Add up {value1}, a column with a number for each day, with awk or python3.\n"
        "3. Write the sum, a whole number and nothing else, to /workspace/total.txt on your "
        "machine.\n"
        "4. Leave ownCloud as it is."
    ),
    (
        "In /workspace/total.txt on your machine there should be one whole number: all of "
        "{value1} added up. The numbers are a column of the csv file {path} in ownCloud, "
        "which has a header and a line for each day. Download it into the workspace (`office "
        "files get PATH`) and use awk or python3; do not change what is in ownCloud."
    ),
    where=("owncloud",),
)
CLEAN_A_TABLE = wordings(
    ROLE,
    (
        "The file {source} in ownCloud has the columns id, customer, city and amount. Some "
        "lines are there twice, and some have an empty cell. Make a clean csv file: the same "
        "header, every complete line once, no line with an empty cell, sorted by id from the "
        "lowest to the highest. Upload it to ownCloud as {target}. The raw file stays as it "
        "is. The cells are not changed."
    ),
    (
        "{source} in ownCloud, with id, customer, city and amount, is not fit for use: there "
        "are lines with an empty cell, and lines that come twice. Upload a clean one as "
        "{target}: the header as it is, each complete line exactly once, from the lowest id "
        "to the highest, and no cell changed. Do not touch the raw file."
    ),
    (
        "1. Download {source} (columns id, customer, city, amount) from ownCloud.\n"
        "2. Drop every line in which a cell is empty.\n"
        "3. Of equal lines keep one.\n"
        "4. Sort by id, lowest first.\n"
        "5. Upload it with the same header, cells unchanged, as {target}. The file {source} "
        "itself stays."
    ),
    (
        "Raw file: {source}\n"
        "Clean file: {target}\n"
        "Both are csv files in ownCloud with the header id,customer,city,amount. In the "
        "clean one there is no line with an empty cell and no line twice; it has all the "
        "others, in the order of their ids as numbers, with the same cells. The raw one is "
        "kept as it is."
    ),
    (
        "Before anyone counts with {source} in ownCloud it has to be cleaned. Its columns "
        "are id, customer, city and amount. An incomplete line (a cell is empty) goes out, a "
        "repeated line stays once. The result, under the same header and ordered by id from "
        "small to large, is a new csv file {target}; cells keep their text, and the raw file "
        "stays."
    ),
    where=("owncloud",),
)
QUERY_A_DATABASE = wordings(
    ROLE,
    (
        "The file {path} in ownCloud is an SQLite database with the tables customers (id, "
        "name) and orders (id, customer_id, status, amount). Python's module sqlite3 reads "
        "it. For each customer, add up the amounts of the orders with the status {state}. "
        "Write a csv file with the header customer,total and one line for each customer who "
        "has such orders, the highest total first; equal totals by name. Upload it to "
        "ownCloud as {target}."
    ),
    (
        "How much did each customer order in {state} orders? The SQLite database {path} in "
        "ownCloud has customers (id, name) and orders (id, customer_id, status, amount); "
        "read it with Python's sqlite3. Make a csv file with customer,total as its header, "
        "the customers who have orders with the status {state} and the sums of these, "
        "highest first, equal ones by name. Upload it as {target}."
    ),
    (
        "1. Download {path} from ownCloud: SQLite, tables customers (id, name) and orders "
        "(id, customer_id, status, amount). The module sqlite3 of Python opens it.\n"
        "2. Sum up amount by customer, only over orders whose status is {state}.\n"
        "3. Order by the sum, highest first, then by name.\n"
        "4. Upload it as the csv file {target}, header customer,total; who has no such order "
        "is left out."
    ),
    (
        "Report: {target} (ownCloud, csv, header customer,total)\n"
        "Data: {path} (ownCloud, SQLite; customers: id, name; orders: id, customer_id, "
        "status, amount)\n"
        "Filter: the status is {state}\n"
        "One line a customer with at least one such order; total is the sum of their "
        "amounts. The largest total is first; customers with equal totals are in the order "
        "of their names. Python reads the file with sqlite3."
    ),
    (
        "Our orders are in an SQLite file in ownCloud, {path}: a table customers with id and "
        "name, a table orders with id, customer_id, status and amount. We want to know the "
        "total of the {state} ones for every customer who has any. Upload the answer as "
        "{target}, a csv file that begins with customer,total and goes from the highest "
        "total to the lowest, by name where they are equal. You can use Python's module "
        "sqlite3."
    ),
    where=("owncloud",),
)
JOIN_TWO_TABLES = wordings(
    ROLE,
    (
        "In ownCloud, {folder}/sales.csv has a line for each sale (date, product, quantity) "
        "and {folder}/prices.json the price of one piece of each product. Work out the "
        "revenue of each product in the month {month}: quantity times price, added up. Write "
        "a JSON object from product to revenue, whole numbers, with only the products that "
        "were sold in that month, and upload it to ownCloud as {target}."
    ),
    (
        "What did each product bring in {month}? Sales are in {folder}/sales.csv in ownCloud "
        "(date, product, quantity), the price of a piece in {folder}/prices.json. Revenue is "
        "quantity times price, summed over the month. Upload {target}, a JSON object from "
        "product to revenue in whole numbers; products without a sale in that month are not "
        "in it."
    ),
    (
        "1. Get {folder}/sales.csv (date, product, quantity) and {folder}/prices.json (price "
        "of one piece by product) from ownCloud.\n"
        "2. Take the sales whose date is in {month}.\n"
        "3. For each product add up quantity times price.\n"
        "4. Upload the sums as a JSON object, product to whole number, as {target}, with the "
        "products sold in that month alone."
    ),
    (
        "Month: {month}\n"
        "Sales: {folder}/sales.csv, lines of date, product, quantity\n"
        "Prices of one piece: {folder}/prices.json\n"
        "Revenue by product: {target}\n"
        "All of these are in ownCloud. The revenue is a JSON object whose keys are the "
        "products that were sold in the month and whose values are whole numbers, the sum of "
        "quantity times price."
    ),
    (
        "Please make {target} in ownCloud: JSON, one object, in which every product sold in "
        "{month} stands with its revenue, a whole number. You need two files from there. "
        "{folder}/sales.csv says what was sold when (date, product, quantity), "
        "{folder}/prices.json what a piece costs; multiply, and add up within the month. "
        "Other months and unsold products do not appear."
    ),
    where=("owncloud",),
)
REPORT_A_SURVEY = wordings(
    ROLE,
    (
        "The workbook {path} in ownCloud has the answers of a survey: a line for each "
        "person, a column for each question, answers from 1 to 5. There is no spreadsheet "
        "program on your machine; an xlsx file is a zip file, and its sheet is the XML file "
        "xl/worksheets/sheet1.xml in it. Post one message in the RocketChat channel "
        "#{channel} with the mean of {value1}, two decimals, and how many people answered 1 "
        "or 2 there, in this form: '{start}3.25, low answers 4'."
    ),
    (
        "How did people answer on {value1}? The survey is the workbook {path} in ownCloud: a "
        "line a person, a column a question, 1 to 5. Say it in RocketChat in #{channel}, in "
        "one message of this form with the mean to two decimals and how many gave 1 or 2: "
        "'{start}3.25, low answers 4'. There is no spreadsheet program; an xlsx file is a "
        "zip file, its sheet is xl/worksheets/sheet1.xml."
    ),
    (
        "1. Download {path} from ownCloud and unzip it (that is what an xlsx file is); the "
        "sheet is xl/worksheets/sheet1.xml. Lines are people, columns questions.\n"
        "2. Work out the mean of {value1}, two decimals, and count the answers 1 and 2 "
        "there.\n"
        "3. Post it in the RocketChat channel #{channel} as one message, exactly like this "
        "with your numbers: '{start}3.25, low answers 4'."
    ),
    (
        "Survey: {path} in ownCloud, an xlsx file (a zip file with the sheet in "
        "xl/worksheets/sheet1.xml), in which every person has a line and every question a "
        "column with answers from 1 to 5\n"
        "Question: {value1}\n"
        "Wanted: its mean with two decimals, and the number of answers 1 or 2\n"
        "Where to: #{channel} in RocketChat, one message in the form '{start}3.25, low "
        "answers 4'."
    ),
    (
        "The people in #{channel} want to hear about {value1}. Post there, in RocketChat, "
        "one message that looks like '{start}3.25, low answers 4': first the mean of all "
        "answers to it with two decimals, then how many people chose 1 or 2. The answers, 1 "
        "to 5, are in a workbook in ownCloud, {path}, with a line for each person and a "
        "column for each question; read xl/worksheets/sheet1.xml in it, since xlsx files are "
        "zip files."
    ),
    where=("owncloud", "rocketchat"),
)
