package cli

import (
	"context"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// checkDependencies reports, before anything is created, jobs that depend on jobs which do not exist yet. It refuses dependency cycles.
func (m *manifests) checkDependencies(ctx context.Context, creations []creation) error {
	if m.offline {
		return nil
	}
	spaces := map[string][]creation{}
	for _, c := range jobCreations(creations) {
		if namespace := c.objects[0].GetNamespace(); len(c.Job.DependsOn) > 0 {
			spaces[namespace] = append(spaces[namespace], c)
		}
	}
	if len(spaces) == 0 {
		return nil
	}
	reader, err := m.factory.newReader()
	if err != nil {
		return err
	}
	for namespace, waiting := range spaces {
		there, err := reader.Jobs(ctx, inventory.JobQuery{Namespace: namespace})
		if exitCode(err) == exitForbidden {
			continue
		}
		if err != nil {
			return err
		}
		if err := m.checkNamespaceDependencies(creations, waiting, there); err != nil {
			return err
		}
	}
	return nil
}

// checkNamespaceDependencies checks the jobs of one namespace that wait for others.
func (m *manifests) checkNamespaceDependencies(creations, waiting []creation, there []inventory.Job) error {
	waits, known, endless := map[string][]string{}, map[string]bool{}, map[string]string{}
	var all []string
	for i := range there {
		waits[there[i].Name], known[there[i].Name] = there[i].WaitsFor, true
		if there[i].Object.Kind == "Deployment" {
			endless[there[i].Name] = there[i].Kind
		}
		all = append(all, there[i].Name)
	}
	for _, c := range jobCreations(creations) {
		known[c.Name] = true
	}
	for _, c := range waiting {
		waits[c.Name] = c.Job.DependsOn
	}
	for _, c := range waiting {
		if way := jobplan.FindCycle(c.Name, waits); way != nil {
			return &conflictError{what: phrase.Textf("%s%s would never start: %s\nNothing was created", c.fieldPrefix("job.depends-on"), c, jobplan.FormatCycle(way))}
		}
		for _, name := range c.Job.DependsOn {
			switch {
			case !known[name]:
				m.factory.IO.printErr("%swarning: %s starts after %s, which is not there yet%s", c.fieldPrefix("job.depends-on"), c, name, suggestSimilar(name, all))
			case endless[name] != "":
				m.factory.IO.printErr("%swarning: %s starts after %s, which is of kind %s and goes on until it is deleted", c.fieldPrefix("job.depends-on"), c, name, endless[name])
			}
		}
	}
	return nil
}

// dependencyCycle returns the dependency cycle that a job of a namespace would have with other dependencies, or nil. A job that has started does not
// wait.
func dependencyCycle(name string, dependsOn []string, there []inventory.Job) []string {
	waits := map[string][]string{}
	for i := range there {
		waits[there[i].Name] = there[i].WaitsFor
	}
	if len(waits[name]) == 0 {
		return nil
	}
	waits[name] = dependsOn
	return jobplan.FindCycle(name, waits)
}
