"""A company for each episode: RocketChat, GitLab, Plane, ownCloud, colleagues, and tasks in it.

How it runs. The episode's sandbox has a network of its own. Its first process opens the services'
ports there and passes the listening sockets out; `companies` hands them to a process that serves
one company from outside the sandbox (`company_process`). So the agent reaches
`the-agent-company.com` at the real ports, and of the services' state and of the graders' code
nothing is within its reach but what the services answer. `judge` stops the agent's processes and
not the services.

What an author of tasks gets:

* Seeding: `company_seed.CompanySeed`, plain records for people, channels, projects, boards, files
  and colleagues; `a + b` has all of both. `generated_company.generate_company` makes one up,
  `checkout_company` reads one from a checkout of TheAgentCompany. The same seed is built once
  (`build_company`) and then copied.
* A family: a function from `office_plan.Setting` (chance, and a company to add to) to an
  `office_plan.OfficePlan`, registered by `@family(name, level=, domain=, services=, split=)` in a
  module that `families.all_families` imports. `families.first_steps` has three small ones.
* Acting: `OfficePlan.reference` and `near_misses` are bash scripts, one a turn. In the machine the
  command `office` (`office_client`, standard library only) makes requests with the agent's logins;
  curl, git and Python are there too.
* Reading state and grading: a `Checkpoint` has a function of `Evidence`: `evidence.office` is a
  client of all services (`rocketchat`, `gitlab`, `plane`, `files`, `read_file`, `messages`,
  `talk`, `as_user`), which needs no password; `evidence.file(path)` reads the machine,
  `evidence.run(command)` runs a checker in it, `evidence.trajectory` and `evidence.answer` are what
  the agent wrote. It returns a truth or a number of points. What a service refuses (`OfficeError`
  below 500) is not passed; whatever else is raised is a failure of the environment, never a grade.
* Colleagues: `company_seed.Colleague` with facts, or a persona and a goal for a model;
  `checkout_company.colleagues_from_scenarios` makes them of a task's `scenarios.json`.
* Checking: `practicum tasks office --check all` plays twenty tasks of each family. A family's plan
  must follow from its `Setting` alone, and its evidence must be the same each time it is played:
  ids, times and tokens in what an agent sees are, but for tokens of logins.
* Running a company without a task: `Companies().open(seed, listeners)` gives an `OpenCompany` with
  `office`, `is_alive`, `serve(more_listeners)` (to let a second sandbox, such as a grader's, see
  the same company) and `close`.

Modules: `*_model` hold what may happen to a service's state, `services/` the routes over it. A new
route is a function with `@routes.route(methods, pattern)`.
"""
