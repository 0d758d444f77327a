package api

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"g8s.host/gpu-scheduler/pkg/server"
)

// TestOneNameIsOneJobs: clients that submit jobs of several kinds under one name at the same moment, with each of the
// routes that create, get one job, and the others learn that the name is taken.
func TestOneNameIsOneJobs(t *testing.T) {
	a := start(t, server.Options{})
	for round := range 5 {
		name := fmt.Sprintf("contested-%d", round)
		a.Cleanup(func() { a.remove(name) })
		requests := []request{
			{method: http.MethodPost, path: jobs, body: yamlOf(training(name))},
			{method: http.MethodPost, path: jobs, body: yamlOf(inference(name))},
			{method: http.MethodPut, path: jobs, body: yamlOf(inference(name))},
			{method: http.MethodPost, path: jobs, body: yamlOf(training(name))},
		}
		statuses := make([]int, len(requests))
		var group sync.WaitGroup
		for i, r := range requests {
			group.Go(func() {
				r.user = member
				statuses[i] = a.do(r).status
			})
		}
		group.Wait()
		created := slices.DeleteFunc(slices.Clone(statuses), func(status int) bool { return status != http.StatusCreated })
		// Applying what another has just created changes nothing.
		bad := slices.ContainsFunc(statuses, func(status int) bool {
			return status != http.StatusCreated && status != http.StatusConflict && status != http.StatusOK
		})
		if len(created) != 1 || bad {
			t.Errorf("the answers are %v, want one 201, and that the name is taken", statuses)
		}
		a.eventually("one job of the name to be left", func() bool { return a.item(reader, name) != nil })
	}
}
