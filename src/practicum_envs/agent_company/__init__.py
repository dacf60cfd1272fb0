"""TheAgentCompany's own tasks and graders, from the user's checkout, played in the office."""
