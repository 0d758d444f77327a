package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/submit"
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
	known := make([]string, len(jobs))
	for i, job := range jobs {
		known[i] = job.Name
	}
	return meant(name, known)
}

// missingJob is the job that an error says is not there, "" if it says something else.
func missingJob(err error) (namespace, name string) {
	var read *inventory.NotFoundError
	var written *submit.NotFoundError
	switch {
	case errors.As(err, &read):
		return read.Namespace, read.Name
	case errors.As(err, &written):
		return written.Namespace, written.Name
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

// meant is a line that names what is near to a name, or begins with it; "" if nothing does.
func meant(name string, known []string) string {
	near := nearWord(name, known)
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
