package api

import (
	"net/http"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/server"
)

// TestWhatChangedSinceItWasReadStaysAsItIs changes each thing of which a client has an old version, which is refused
// and changes nothing, and then with the version that it has now.
func TestWhatChangedSinceItWasReadStaysAsItIs(t *testing.T) {
	a := start(t, server.Options{})
	a.create("versioned", inference("versioned"))
	a.want(http.StatusCreated, request{method: http.MethodPost, path: "/api/v1/quotas", user: admin, body: yamlOf(quotaYAML("versioned", "versioned"))})
	type change struct {
		method, path string
		body         any
		status       int
	}
	edit := change{http.MethodPatch, jobs + "/versioned?namespace=team", map[string]any{"replicas": 2}, 200}
	labelled := change{http.MethodPost, "/api/v1/nodes/node-3/labels", map[string]any{"key": "tier", "value": "a", "overwrite": true}, 200}
	relabelled := change{http.MethodPost, "/api/v1/nodes/node-3/labels", map[string]any{"key": "tier", "value": "b", "overwrite": true}, 200}
	joins := change{http.MethodPost, "/api/v1/nodes/node-3/pools", map[string]any{"pool": "versioned"}, 200}
	described := change{http.MethodPut, "/api/v1/pools/versioned", map[string]any{"nodes": []string{"node-3"}, "description": "changed"}, 200}
	grown := func(gpus string) string {
		return strings.Replace(quotaYAML("versioned", "versioned"), "gpu: 4", "gpu: "+gpus, 1)
	}
	tests := []struct {
		name, read string
		prepare    []change
		meanwhile  change
		then       change
	}{
		{name: "a job, by its YAML", read: jobs + "/versioned/spec?namespace=team", meanwhile: edit,
			then: change{http.MethodPut, jobs, yamlOf(inference("versioned")), 200}},
		{name: "a job, in part", read: jobs + "/versioned?namespace=team", meanwhile: edit,
			then: change{http.MethodPatch, jobs + "/versioned?namespace=team", map[string]any{"replicas": 4}, 200}},
		{name: "a job, paused", read: jobs + "/versioned?namespace=team", meanwhile: edit,
			then: change{http.MethodPost, jobs + "/versioned/pause?namespace=team", nil, 200}},
		{name: "a job, deleted", read: jobs + "/versioned?namespace=team",
			meanwhile: change{http.MethodPost, jobs + "/versioned/resume?namespace=team", nil, 200},
			then:      change{http.MethodDelete, jobs + "/versioned?namespace=team", nil, 200}},
		{name: "a label", read: "/api/v1/nodes/node-3/labels/tier", prepare: []change{labelled}, meanwhile: relabelled,
			then: change{http.MethodPut, "/api/v1/nodes/node-3/labels/tier", map[string]any{"value": "c"}, 200}},
		{name: "a label of a node that was read, removed", read: "/api/v1/nodes/node-3", prepare: []change{labelled}, meanwhile: relabelled,
			then: change{http.MethodDelete, "/api/v1/nodes/node-3/labels?key=tier", nil, 200}},
		{name: "a pool", read: "/api/v1/pools/versioned", prepare: []change{joins}, meanwhile: described,
			then: change{http.MethodPut, "/api/v1/pools/versioned", map[string]any{"nodes": []string{"node-3"}, "description": "again"}, 200}},
		{name: "a node that leaves", read: "/api/v1/nodes/node-3/labels", meanwhile: labelled,
			then: change{http.MethodDelete, "/api/v1/nodes/node-3/pools/versioned", nil, 200}},
		{name: "a quota", read: "/api/v1/quotas/versioned", meanwhile: change{http.MethodPut, "/api/v1/quotas", yamlOf(grown("5")), 200},
			then: change{http.MethodPut, "/api/v1/quotas", yamlOf(grown("6")), 200}},
		{name: "a quota, deleted", read: "/api/v1/quotas/versioned", meanwhile: change{http.MethodPut, "/api/v1/quotas", yamlOf(grown("7")), 200},
			then: change{http.MethodDelete, "/api/v1/quotas/versioned", nil, 200}},
	}
	do := func(c change, header map[string]string, status int) map[string]any {
		t.Helper()
		return a.want(status, request{method: c.method, path: c.path, user: admin, body: c.body, header: header})
	}
	version := func(path string) string {
		got := a.do(request{path: path, user: admin})
		if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("ETag"), `"`) {
			t.Fatalf("%s: status %d, ETag %q: %s", path, got.status, got.header.Get("ETag"), got.body)
		}
		return got.header.Get("ETag")
	}
	for _, tc := range tests { // in their order: each goes on with what the one before left
		t.Run(tc.name, func(t *testing.T) {
			for _, c := range tc.prepare {
				do(c, nil, c.status)
			}
			old := version(tc.read)
			if again := version(tc.read); again != old {
				t.Errorf("the ETag of what did not change is %s, then %s", old, again)
			}
			do(tc.meanwhile, nil, tc.meanwhile.status)
			current := version(tc.read)
			refused := do(tc.then, map[string]string{"If-Match": old}, http.StatusPreconditionFailed)
			a.same("the code", "PreconditionFailed", refused["code"])
			if left := version(tc.read); left != current {
				t.Errorf("a refused change changed it from %s to %s", current, left)
			}
			do(tc.then, map[string]string{"If-Match": `"other", ` + current}, tc.then.status)
		})
	}
}

// TestIfMatchOfWhatIsNotThere refuses to make what the client says it has seen, and takes a star for whatever is there.
func TestIfMatchOfWhatIsNotThere(t *testing.T) {
	a := start(t, server.Options{})
	star := map[string]string{"If-Match": "*"}
	apply := request{method: http.MethodPut, path: jobs, user: member, body: yamlOf(inference("unseen")), header: star}
	a.want(http.StatusPreconditionFailed, apply)
	a.create("unseen", inference("unseen"))
	a.want(http.StatusOK, apply)
	a.want(http.StatusPreconditionFailed, request{method: http.MethodPatch, path: jobs + "/unseen", user: member,
		body: map[string]any{"replicas": 2}, header: map[string]string{"If-Match": "nothing that an ETag looks like"}})
	a.want(http.StatusNotFound, request{method: http.MethodDelete, path: jobs + "/never-there?namespace=team", user: member, header: star})
	a.want(http.StatusNotFound, request{method: http.MethodPut, path: "/api/v1/nodes/none/labels/a", user: admin,
		body: map[string]any{"value": "b"}, header: star})
}

// TestEveryChangeTakesIfMatch: a header that a route ignored would let through what its sender wants stopped.
func TestEveryChangeTakesIfMatch(t *testing.T) {
	document := start(t, server.Options{}).document()
	for _, o := range document.operations {
		switch o.method {
		case http.MethodPut, http.MethodPatch, http.MethodDelete:
			if o.spec.Parameters.GetByInAndName("header", "If-Match") == nil {
				t.Errorf("%s takes no If-Match", o.id)
			}
		}
	}
}
