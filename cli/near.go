package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/spelling"
)

// nearPatience is how long a command that has failed already may look for what was meant.
const nearPatience = 2 * time.Second

// nearJob is what to add to the error that a job is not there: one whose name is near. It is "" for every other error,
// and when none is near or the jobs cannot be listed.
func (f *Factory) nearJob(ctx context.Context, err error) string {
	namespace, name := missingJob(err)
	if name == "" {
		return ""
	}
	reader, err := f.reader()
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, nearPatience)
	defer cancel()
	jobs, err := reader.Jobs(ctx, inventory.JobQuery{Namespace: namespace})
	if err != nil {
		return ""
	}
	if near := meantBy(name, jobs, func(job *inventory.Job) string { return job.Name }); near != "" {
		return near
	}
	elsewhere, err := reader.Jobs(ctx, inventory.JobQuery{Name: name})
	if err != nil {
		return ""
	}
	return inNamespaces(elsewhere, namespace)
}

// inNamespaces is a line that tells in which other namespaces jobs are; "" if in none.
func inNamespaces(jobs []inventory.Job, here string) string {
	var others []string
	for _, job := range jobs {
		if job.Namespace != here {
			others = append(others, job.Namespace)
		}
	}
	slices.Sort(others)
	others = slices.Compact(others)
	switch {
	case len(others) == 0:
		return ""
	case len(others) == 1:
		return fmt.Sprintf("\nThere is one in namespace %s: add -n %s", others[0], others[0])
	case len(others) > maxOthers:
		others = append(others[:maxOthers], fmt.Sprintf("%d more", len(others)-maxOthers))
	}
	return "\nThere are such in other namespaces: " + strings.Join(others, ", ")
}

// maxOthers is how many namespaces a line names.
const maxOthers = 5

// missingJob is the job that an error says is not there, "" if it says something else.
func missingJob(err error) (namespace, name string) {
	var missing *inventory.NotFoundError
	if errors.As(err, &missing) {
		return missing.Namespace, missing.Name
	}
	return "", ""
}

// meantBy is as meant for things that have names.
func meantBy[T any](name string, known []T, nameOf func(*T) string) string {
	names := make([]string, len(known))
	for i := range known {
		names[i] = nameOf(&known[i])
	}
	return meant(name, names)
}

// meant is a line that names what is near to a name, or begins with it; "" if nothing does. The name itself is never
// meant: the user has looked for it, and not for want of the right word.
func meant(name string, known []string) string {
	if slices.Contains(known, name) {
		return ""
	}
	near := spelling.Nearest(name, known)
	for _, candidate := range known {
		if near == "" && len(name) > 2 && strings.HasPrefix(candidate, name) {
			near = candidate
		}
	}
	if near == "" {
		return ""
	}
	return fmt.Sprintf("\nDid you mean %s?", near)
}
