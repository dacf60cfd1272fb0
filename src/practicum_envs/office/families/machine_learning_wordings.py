"""Wordings of the tasks of a machine learning team."""

from practicum_envs.office.families.family_parts import wordings

ROLE = "a machine learning engineer"
SCORE_PREDICTIONS = wordings(
    ROLE,
    (
        "In ownCloud, Models/predictions.csv has the label and the predicted class of some "
        "examples. The positive class is {positive}. Work out accuracy (right ones of all), "
        "precision (right ones of those predicted {positive}) and recall (right ones of "
        "those labelled {positive}). Upload {target} to ownCloud: a JSON object with the "
        "keys accuracy, precision and recall and numbers rounded to 4 decimals."
    ),
    (
        "How good is the classifier? Models/predictions.csv in ownCloud has label and "
        "predicted class of some examples; {positive} is the positive class. Upload "
        "{target}, a JSON object with accuracy (share of right ones), precision (of those "
        "predicted {positive}, how many are) and recall (of those labelled {positive}, how "
        "many were found), each a number rounded to 4 decimals."
    ),
    (
        "1. Download Models/predictions.csv from ownCloud: for each example the label and "
        "the predicted class.\n"
        "2. With {positive} as positive class work out accuracy, precision (right ones among "
        "those predicted {positive}) and recall (right ones among those labelled "
        "{positive}).\n"
        "3. Round each to 4 decimals and upload {target}, a JSON object with these three "
        "keys."
    ),
    (
        "Data: Models/predictions.csv (ownCloud), with label and predicted\n"
        "Positive class: {positive}\n"
        "Metrics: accuracy = right / all, precision = right / predicted {positive}, recall = "
        "right / labelled {positive}, where the last two count the {positive} ones that are "
        "right\n"
        "Result: {target} (ownCloud), a JSON object with accuracy, precision and recall as "
        "numbers of 4 decimals."
    ),
    (
        "For the model's page we need three numbers. They come from Models/predictions.csv "
        "in ownCloud, where every example has a label and a predicted class, and go to "
        "{target} there, as a JSON object: accuracy is the share of all that is right; "
        "precision and recall look at {positive} as the positive class, the one at what was "
        "predicted so, the other at what is labelled so. Round to 4 decimals."
    ),
    where=("owncloud",),
)
PICK_THE_BEST_RUN = wordings(
    ROLE,
    (
        "The GitLab project {path} has a file runs/NAME/metrics.json for each run. Find the "
        "run with the lowest val_loss among those with the status finished. Commit a file "
        "named BEST to the branch main of the project; its only content is the name of that "
        "run, such as coral-17. Through the API it is POST projects/ID/repository/files/BEST "
        "with branch, commit_message and content. Leave all other files as they are."
    ),
    (
        "Which run of the GitLab project {path} is the best? Each has a file "
        "runs/NAME/metrics.json; only runs with the status finished count, and of these the "
        "lowest val_loss. Say it in a file BEST on the branch main, whose only content is "
        "the run's name, such as coral-17 (POST projects/ID/repository/files/BEST with "
        "branch, commit_message, content). Do not change other files."
    ),
    (
        "1. Look at runs/NAME/metrics.json for every run in the GitLab project {path}.\n"
        "2. Leave out runs whose status is not finished; of the others take the one with the "
        "lowest val_loss.\n"
        "3. Commit a new file BEST to main with nothing but its name, like coral-17: by git, "
        "or POST projects/ID/repository/files/BEST with branch, commit_message and content.\n"
        "No other file changes."
    ),
    (
        "Project: {path} (GitLab)\n"
        "Runs: runs/NAME/metrics.json, with status and val_loss\n"
        "Best: the lowest val_loss among the finished ones\n"
        "To do: a commit on main that adds the file BEST, containing the name of the best "
        "run (such as coral-17) and nothing else. POST projects/ID/repository/files/BEST "
        "takes branch, commit_message and content. All other files stay."
    ),
    (
        "We always forget which run was best, so it shall be written down: in a file named "
        "BEST on main in the GitLab project {path}, by a commit that touches no other file. "
        "It holds one name, like coral-17. The best one has finished (see status) and has "
        "the lowest val_loss; both are in runs/NAME/metrics.json. In the API: POST "
        "projects/ID/repository/files/BEST, fields branch, commit_message, content."
    ),
    where=("gitlab",),
)
PROPOSE_A_CONFIG = wordings(
    ROLE,
    (
        "In the GitLab project {path}, set {key} in config.json to {value}. Do it on a new "
        "branch named {branch} that starts from main, and open a merge request from it to "
        "main with the title '{title}'. Do not merge it: main stays as it is. The file stays "
        "valid JSON with all its other values, and no other file is changed."
    ),
    (
        "{key} in config.json of the GitLab project {path} should be {value}, but nobody has "
        "agreed yet. So propose it: a branch {branch}, made from main, in which config.json "
        "has this value and is otherwise the same valid JSON, and an open merge request from "
        "it to main, titled '{title}'. Merge nothing, leave main alone, and change no other "
        "file."
    ),
    (
        "1. In the GitLab project {path} make a branch {branch} from main.\n"
        "2. On it, set {key} to {value} in config.json. The other values stay, it stays "
        "valid JSON, and no other file is changed.\n"
        "3. Open a merge request to main with the title '{title}'.\n"
        "4. Leave it open: main does not change."
    ),
    (
        "Project: {path} (GitLab)\n"
        "Branch: {branch}, new, from main\n"
        "Change: {key} = {value} in config.json, nothing else in it, no other file\n"
        "Merge request: from that branch to main, title '{title}', left open\n"
        "The config has to be valid JSON afterwards, and main has to be as it was."
    ),
    (
        "Please prepare a change for review in the GitLab project {path}. It is small: "
        "config.json has to say {value} for {key}, all else in it as before. Push it on a "
        "new branch called {branch} that begins at main, touch no other file, and ask for it "
        "to be merged into main: a merge request named '{title}'. Whether it is merged "
        "others decide, so main stays as it is."
    ),
    where=("gitlab",),
)
SPLIT_A_DATASET = wordings(
    ROLE,
    (
        "In ownCloud, {folder}/all.csv has examples (id, text, label). Leave out those "
        "without a label. Of the others, an example belongs to the test set if its id "
        "divided by {every} leaves the remainder {rest}, and to the training set otherwise. "
        "Upload {folder}/test.csv and {folder}/train.csv to ownCloud, both with the header "
        "of all.csv and the lines in the same order and unchanged."
    ),
    (
        "{folder}/all.csv in ownCloud (id, text, label) has to be split. Lines without a "
        "label go nowhere. Where the id divided by {every} leaves {rest}, a line is part of "
        "{folder}/test.csv, else of {folder}/train.csv. Upload both, each with the header of "
        "all.csv and its lines in the order they have, not changed."
    ),
    (
        "1. Download {folder}/all.csv from ownCloud; it has id, text and label.\n"
        "2. Drop the examples that have no label.\n"
        "3. An id whose remainder by {every} is {rest} is for testing, all others for "
        "training.\n"
        "4. Upload {folder}/test.csv and {folder}/train.csv, with the header of all.csv, "
        "order and lines as they were."
    ),
    (
        "Source: {folder}/all.csv (id, text, label)\n"
        "Test set: {folder}/test.csv, where the id modulo {every} is {rest}\n"
        "Training set: {folder}/train.csv, all the rest\n"
        "Left out of both: examples without a label\n"
        "All in ownCloud. Both files have the header of all.csv; lines are neither changed "
        "nor put into another order."
    ),
    (
        "How do we know what the model has not seen? By a rule: examples whose id leaves the "
        "remainder {rest} when it is divided by {every} are for the test, the others for "
        "training, and who has no label is for neither. Apply it to {folder}/all.csv in "
        "ownCloud (id, text, label) and upload {folder}/test.csv and {folder}/train.csv, "
        "both under the same header, with lines as they are and in the same order."
    ),
    where=("owncloud",),
)
REPORT_DRIFT = wordings(
    ROLE,
    (
        "In ownCloud, Features/last-month.csv and Features/this-month.csv have the same "
        "columns. For each column take the mean of this month minus the mean of last month; "
        "it is a whole number. Send {person.name} (@{person.username}) one direct message in "
        "RocketChat that names the column whose mean moved most, up or down, and by how "
        "much, with its sign, in this form: 'Largest drift: height -12'."
    ),
    (
        "Which column has drifted most since last month? Compare the means in "
        "Features/this-month.csv and Features/last-month.csv in ownCloud, whose columns are "
        "the same: this month's minus last month's, a whole number. {person.name} "
        "(@{person.username}) wants to know in one direct message in RocketChat, with the "
        "sign: 'Largest drift: height -12'. Most means the largest step, up or down."
    ),
    (
        "1. Get Features/last-month.csv and Features/this-month.csv from ownCloud.\n"
        "2. For every column subtract last month's mean from this month's; the result is a "
        "whole number.\n"
        "3. Choose the column that moved furthest, in either direction.\n"
        "4. Send one direct message to @{person.username} ({person.name}) in RocketChat, in "
        "the form 'Largest drift: height -12', the sign included."
    ),
    (
        "For: {person.name}, @{person.username} in RocketChat, one direct message\n"
        "Form: 'Largest drift: height -12', so the column and by how much its mean moved, "
        "with + or -\n"
        "Data: Features/last-month.csv and Features/this-month.csv in ownCloud, the same "
        "columns in both\n"
        "The move is the mean of this month minus that of last month, a whole number; the "
        "largest counts, whether up or down."
    ),
    (
        "{person.name} watches our features and asks what has changed. In ownCloud, "
        "Features/last-month.csv and Features/this-month.csv hold the same columns for two "
        "months. Take for each the difference of the means, new minus old, which is a whole "
        "number, and report the one that is furthest from zero. The report is a single "
        "direct message to @{person.username} in RocketChat that reads like 'Largest drift: "
        "height -12', with a plus where it rose."
    ),
    where=("owncloud", "rocketchat"),
)
