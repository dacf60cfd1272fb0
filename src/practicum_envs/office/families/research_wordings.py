"""Wordings of the tasks of a research group."""

from practicum_envs.office.families.family_parts import wordings

ROLE = "an assistant in the research group"
NOTE_A_RESULT = wordings(
    ROLE,
    (
        "Make a page in the wiki of the GitLab project {path}. Its title is '{title}', and "
        "its content is this sentence, word for word:\n"
        "{text}\n"
        "The other pages of the wiki stay as they are. In the API a page is made by POST "
        "projects/ID/wikis with the fields title and content; ID may be {id}."
    ),
    (
        "The wiki of the GitLab project {path} gets a new page, '{title}'. All it says is "
        "this sentence, word for word:\n"
        "{text}\n"
        "Use POST projects/ID/wikis, fields title and content; ID may be {id}. Leave the "
        "pages that are there already as they are."
    ),
    (
        "Wiki: GitLab project {path} (ID may be {id})\n"
        "Title of the new page: '{title}'\n"
        "Content, word for word: {text}\n"
        "Route: POST projects/ID/wikis with title and content\n"
        "It is one page with this sentence only, and the other pages stay as they are; "
        "please make it now, before the numbers are forgotten."
    ),
    (
        "1. Take this sentence word for word:\n"
        "{text}\n"
        "2. Make it the content of a new page '{title}' in the wiki of the GitLab project "
        "{path}: POST projects/ID/wikis with title and content, where ID may be {id}.\n"
        "3. Change no other page of the wiki; there is exactly one more than before."
    ),
    (
        "Please write down a result, so that it is not lost:\n"
        "{text}\n"
        "It belongs, word for word and alone, on a page of its own called '{title}' in the "
        "wiki of the GitLab project {path}. POST projects/ID/wikis makes a page from title "
        "and content ({id} works as ID). Other pages stay as they are."
    ),
    where=("gitlab",),
)
SORT_REFERENCES = wordings(
    ROLE,
    (
        "The file {path} in ownCloud has references in BibTeX's form; each begins with "
        "@article and its key, and has an author, a title and mostly a year. Make a csv file "
        "with the header key,year,title and a line for every reference that has a year, the "
        "newest year first and equal years by key. References without a year are left out. "
        "Upload it to ownCloud as {target}."
    ),
    (
        "{path} in ownCloud is a BibTeX file: entries begin with @article and a key and have "
        "author, title and, mostly, year. Turn it into a table, {target}: csv, header "
        "key,year,title, newest first, keys in order within a year. Entries that have no "
        "year are not in it."
    ),
    (
        "1. Download {path} from ownCloud, references in BibTeX's form (@article and a key; "
        "author, title, mostly a year).\n"
        "2. Leave out what has no year.\n"
        "3. Sort by year, newest first, then by key.\n"
        "4. Upload {target} to ownCloud: csv, key,year,title as the header and a line for "
        "each."
    ),
    (
        "References: {path} (ownCloud, BibTeX; each one is @article with its key, author, "
        "title and mostly year)\n"
        "Table: {target} (ownCloud, csv)\n"
        "Header: key,year,title\n"
        "Order: newest year first, equal years by key\n"
        "Left out: references without a year. All others are in it, once."
    ),
    (
        "For the report we need our references as a table and not as BibTeX. Read {path} in "
        "ownCloud, where @article and a key begin each one and author, title and often a "
        "year follow, and upload {target}, a csv file that begins with key,year,title. The "
        "newest come first, those of one year by their keys. If an entry has no year, it is "
        "not listed."
    ),
    where=("owncloud",),
)
DESCRIBE_MEASUREMENTS = wordings(
    ROLE,
    (
        "The file {path} in ownCloud is a JSON object from the name of a series to its "
        "values. Values above {limit} are faults: leave them out. Upload {target} to "
        "ownCloud: a csv file with the header series,n,mean,deviation and a line for each "
        "series, sorted by name. n is how many values are left, mean their mean and "
        "deviation their sample standard deviation (divided by n - 1), both rounded to three "
        "decimals."
    ),
    (
        "What do the series in {path} look like? It is a JSON object in ownCloud with a list "
        "of values for each name. Above {limit} a value is a fault and does not count. "
        "Upload {target}, csv, header series,n,mean,deviation, by name in order: how many "
        "values are left, their mean, their sample standard deviation (n - 1), the last two "
        "with three decimals."
    ),
    (
        "1. Download {path} from ownCloud: JSON, names of series and their values.\n"
        "2. Drop values above {limit}, which are faults.\n"
        "3. For each series work out n, the mean, and the sample standard deviation (divide "
        "by n - 1) of what is left; round both to three decimals.\n"
        "4. Upload {target}: csv, header series,n,mean,deviation, sorted by name."
    ),
    (
        "Data: {path} (ownCloud), a JSON object, series by name\n"
        "Faults: values above {limit}, left out\n"
        "Result: {target} (ownCloud), csv, header series,n,mean,deviation, one line a series "
        "in the order of their names\n"
        "n: values that are left\n"
        "mean, deviation: rounded to three decimals; the deviation is that of a sample, "
        "divided by n - 1."
    ),
    (
        "The instrument in the lab shows more than {limit} only when it is out of order, so "
        "such values have to go. Do this for every series in {path} in ownCloud, a JSON "
        "object from names to values, and describe the rest in {target}, a csv file with "
        "series,n,mean,deviation in its first line and the series sorted by name: their "
        "number of values, the mean, and the sample standard deviation with n - 1, the last "
        "two rounded to three decimals."
    ),
    where=("owncloud",),
)
QUOTE_A_PAPER = wordings(
    ROLE,
    (
        "The paper Papers/{file}.pdf in ownCloud reports a result in percent for 'our "
        "method'. The text of the PDF file is not compressed: grep -a finds it in brackets "
        "before Tj. Add a line at the end of the table on the page Results in the wiki of "
        "the GitLab project {path}, in this form, with the number as in the paper: | {file} "
        "| 12.3 |\n"
        "The lines that are there stay. A page is changed by PUT projects/ID/wikis/Results "
        "with the field content, which is the whole page."
    ),
    (
        "What does 'our method' reach in Papers/{file}.pdf in ownCloud? The paper says it in "
        "percent; grep -a finds its uncompressed text in brackets before Tj. In the wiki of "
        "the GitLab project {path}, the table on the page Results ends with the newest "
        "paper: add this one, in this form and with the paper's number: | {file} | 12.3 |\n"
        "The rest of the page is kept. PUT projects/ID/wikis/Results takes the whole page as "
        "content."
    ),
    (
        "1. Read Papers/{file}.pdf in ownCloud; grep -a shows its text, in brackets before "
        "Tj, not compressed.\n"
        "2. Find the percentage of 'our method'.\n"
        "3. In the wiki of the GitLab project {path} add a last line to the table of the "
        "page Results, with the number as in the paper: | {file} | 12.3 |\n"
        "4. Keep the lines that are there: PUT projects/ID/wikis/Results with the whole page "
        "in content."
    ),
    (
        "Paper: Papers/{file}.pdf (ownCloud; its text is uncompressed, in brackets before "
        "Tj, as grep -a shows)\n"
        "Number: what 'our method' reaches, in percent\n"
        "Page: Results in the wiki of the GitLab project {path}; PUT "
        "projects/ID/wikis/Results replaces it by the field content\n"
        "New last line of its table, with the number as it is in the paper: | {file} | 12.3 "
        "|\n"
        "All other lines stay."
    ),
    (
        "Our survey in the wiki of the GitLab project {path} lacks a paper. "
        "Papers/{file}.pdf in ownCloud has numbers of others and of 'our method'; we want "
        "the latter, in percent, written as the paper does. You need only grep -a: the text "
        "stands in brackets before Tj. On the page Results the table then gets one more line "
        "at its end, and keeps the others: | {file} | 12.3 |\n"
        "A page is changed as a whole, by PUT projects/ID/wikis/Results with the field "
        "content."
    ),
    where=("owncloud", "gitlab"),
)
COLLECT_REVIEWS = wordings(
    ROLE,
    (
        "The paper {paper} has two reviewers, {first.name} (@{first.username}) and "
        "{second.name} (@{second.username}). Ask each for the score by direct message in "
        "RocketChat and name the paper. If a reviewer sends you to someone else, take that "
        "person's score instead. The paper is accepted when the mean is at least {bar}. "
        "Upload {target} to ownCloud with three lines in this form (accept or reject):\n"
        "scores: 61, 48\n"
        "mean: 54.5\n"
        "decision: {value1}\n"
        "The score of {first.name} comes first; the mean has one decimal."
    ),
    (
        "Is {paper} accepted? It is when the mean of two scores is at least {bar}. "
        "{first.name} (@{first.username}) and {second.name} (@{second.username}) are the "
        "reviewers: ask both by direct message in RocketChat, and name the paper. Whom a "
        "reviewer sends you to gives the score instead. Upload {target} to ownCloud, three "
        "lines like these, {first.name}'s score first, the mean with one decimal, accept or "
        "reject:\n"
        "scores: 61, 48\n"
        "mean: 54.5\n"
        "decision: {value1}"
    ),
    (
        "1. Ask @{first.username} ({first.name}) and @{second.username} ({second.name}) in "
        "RocketChat, by direct message, for their scores of {paper}.\n"
        "2. If you are sent to somebody else, that person's score counts.\n"
        "3. Upload {target} to ownCloud: the scores ({first.name}'s first), the mean with "
        "one decimal, and accept where it is {bar} or more, else reject. In this form:\n"
        "scores: 61, 48\n"
        "mean: 54.5\n"
        "decision: {value1}"
    ),
    (
        "Paper: {paper}\n"
        "Reviewers: {first.name} (@{first.username}), {second.name} (@{second.username}), or "
        "whom they name instead\n"
        "Ask: for the score, by direct message in RocketChat, with the paper's number\n"
        "Accepted: from a mean of {bar} on, otherwise reject\n"
        "Result: {target} in ownCloud, three lines, {first.name}'s score before the other, "
        "one decimal in the mean, as here:\n"
        "scores: 61, 48\n"
        "mean: 54.5\n"
        "decision: {value1}"
    ),
    (
        "A decision about {paper} is due. Its scores are with {first.name} and "
        "{second.name}, @{first.username} and @{second.username} in RocketChat; write to "
        "them directly and say which paper. One who cannot tell will name a stand-in, whose "
        "score you take. We accept from a mean of {bar} up. The text file {target} in "
        "ownCloud shall look like this, with your numbers ({first.name}'s first, one decimal "
        "in the mean) and accept or reject:\n"
        "scores: 61, 48\n"
        "mean: 54.5\n"
        "decision: {value1}"
    ),
    where=("rocketchat", "owncloud"),
)
