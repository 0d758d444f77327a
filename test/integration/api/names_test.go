package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
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

// TestAYAMLWithTheBeginningOfANameMakesAJobEachTime, and is no YAML to apply.
func TestAYAMLWithTheBeginningOfANameMakesAJobEachTime(t *testing.T) {
	a := start(t, server.Options{})
	body := yamlOf(strings.Replace(training("many"), "name: many", "generate-name: many-", 1))
	var names []string
	for range 2 {
		name, _ := a.want(http.StatusCreated, request{method: http.MethodPost, path: jobs, user: member, body: body})["jobId"].(string)
		a.Cleanup(func() { a.remove(name) })
		names = append(names, name)
	}
	batch := map[string]any{"yamlContents": []any{body["yamlContent"]}, "dryRun": true}
	made := a.want(http.StatusOK, request{method: http.MethodPost, path: jobs + "/batch", user: member, body: batch})
	for _, one := range made["success"].([]any) {
		names = append(names, one.(map[string]any)["jobId"].(string))
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != 3 || slices.ContainsFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, "many-") || len(name) != len("many-x7k2p") || strings.HasSuffix(name, "xxxxx")
	}) {
		t.Errorf("the jobs are called %q", names)
	}
	a.want(http.StatusUnprocessableEntity, request{method: http.MethodPut, path: jobs, user: member, body: body})
}
