package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/server"
)

const authCheck = "/api/v1/auth/check"

// TestWhoAmI is told as the API server knows it, with the rights in the namespace that is asked about.
func TestWhoAmI(t *testing.T) {
	a := start(t, server.Options{})
	self := a.want(http.StatusOK, request{path: authCheck + "?namespace=team", user: reader})
	a.same("the user", "system:serviceaccount:users:reader", self["user"])
	groups, _ := self["groups"].([]any)
	if !slices.Contains(groups, any("system:serviceaccounts:users")) {
		t.Errorf("the groups are %v", groups)
	}
	maySeeLogs := func(namespace string) bool {
		rules, _ := a.want(http.StatusOK, request{path: authCheck + "?namespace=" + namespace, user: reader})["rules"].([]any)
		return slices.ContainsFunc(rules, func(rule any) bool { return strings.Contains(fmt.Sprint(rule), "pods/log") })
	}
	a.same("rights in the team's namespace", true, maySeeLogs(team))
	a.same("rights in another", false, maySeeLogs(other))
}

// TestWhatMayI compares what is told with what then happens.
func TestWhatMayI(t *testing.T) {
	a := start(t, server.Options{})
	tests := map[string]struct {
		user, resource, action, namespace string
		want                              bool
		says                              string
	}{
		"a reader reads jobs":                       {user: reader, resource: "jobs", action: "read", namespace: team, want: true},
		"and submits none":                          {user: reader, resource: "jobs", action: "create", namespace: team, says: "may not create jobs.batch in namespace team"},
		"nor reads those of others":                 {user: reader, resource: "jobs", action: "read", namespace: other, says: "namespace other"},
		"nor those of the whole cluster":            {user: reader, resource: "queue", action: "read", says: "whole cluster"},
		"a member submits jobs":                     {user: member, resource: "jobs", action: "create", namespace: team, want: true},
		"and deletes them":                          {user: member, resource: "jobs", action: "delete", namespace: team, want: true},
		"and sees pools, wherever they ask from":    {user: member, resource: "pools", action: "read", namespace: team, want: true},
		"and changes none":                          {user: member, resource: "pools", action: "update", says: "may not patch nodes"},
		"an administrator changes labels":           {user: admin, resource: "labels", action: "update", want: true},
		"and quotas":                                {user: admin, resource: "quotas", action: "create", namespace: other, want: true},
		"and deletes namespaces":                    {user: admin, resource: "namespaces", action: "delete", want: true},
		"nobody may nothing, and may learn so much": {user: nobody, resource: "nodes", action: "read", says: "may not list nodes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			body := map[string]any{"resource": tc.resource, "action": tc.action, "namespace": tc.namespace, "pool": "train"}
			got := a.want(http.StatusOK, request{method: http.MethodPost, path: authCheck, user: tc.user, body: body})
			if message := fmt.Sprint(got["message"]); got["allowed"] != tc.want || !strings.Contains(message, tc.says) {
				t.Errorf("the answer is %v, want %t and %q", got, tc.want, tc.says)
			}
		})
	}
	a.want(http.StatusUnprocessableEntity, request{method: http.MethodPost, path: authCheck, user: admin,
		body: map[string]any{"resource": "queue", "action": "delete"}})
}

// TestTokensAreForAnAudience: a server with one of its own takes no token that is meant for the API server, which its
// operator could use there.
func TestTokensAreForAnAudience(t *testing.T) {
	a := start(t, server.Options{Audiences: []string{"gpuctl"}})
	token, err := client.CoreV1().ServiceAccounts("users").CreateToken(t.Context(), reader, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"gpuctl"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.want(http.StatusOK, request{path: jobs + "?namespace=team", user: token.Status.Token})
	a.want(http.StatusUnauthorized, request{path: jobs + "?namespace=team", user: reader})
	ordinary := start(t, server.Options{})
	ordinary.want(http.StatusUnauthorized, request{path: jobs + "?namespace=team", user: token.Status.Token})
}

// TestADiffIsWhatApplyWouldDo, of every kind, and changes nothing.
func TestADiffIsWhatApplyWouldDo(t *testing.T) {
	a := start(t, server.Options{})
	a.create("differs", inference("differs"))
	diff := func(status int, yaml string) map[string]any {
		t.Helper()
		return a.want(status, request{method: http.MethodPost, path: "/api/v1/diff", user: admin, body: yamlOf(yaml)})
	}
	one := func(got map[string]any) map[string]any {
		t.Helper()
		documents, _ := got["documents"].([]any)
		if len(documents) != 1 {
			t.Fatalf("the documents are %v", got)
		}
		only, _ := documents[0].(map[string]any)
		return only
	}
	same := diff(http.StatusOK, inference("differs"))
	a.same("a job that is as it is", map[string]any{"differs": false, "diff": ""}, only(same, "differs", "diff"))
	a.same("what would become of it", "unchanged", one(same)["status"])

	scaled := diff(http.StatusOK, strings.Replace(inference("differs"), "replicas: 1", "replicas: 3", 1))
	a.same("a job that is to grow", true, scaled["differs"])
	if text := fmt.Sprint(scaled["diff"]); !strings.Contains(text, "-  replicas: 1") || !strings.Contains(text, "+  replicas: 3") {
		t.Errorf("the diff is\n%s", text)
	}
	a.same("the job afterwards", "0/1", a.item(reader, "differs")["ready"])

	a.create("fixed", training("fixed"))
	fixed := one(diff(http.StatusOK, strings.Replace(training("fixed"), "image: busybox", "image: alpine", 1)))
	a.same("a change that Kubernetes refuses", map[string]any{"status": "configured", "replace": true}, only(fixed, "status", "replace"))
	a.same("a job that is not there", "created", one(diff(http.StatusOK, training("new")))["status"])
	a.same("a quota", "created", one(diff(http.StatusOK, quotaYAML("new", "new")))["status"])
	pool := one(diff(http.StatusOK, "kind: pool\npool: {name: new}\nnodes: {node-3: {gpu-type: L4}}\n"))
	a.same("a pool", "created", pool["status"])
	if text := fmt.Sprint(pool["diff"]); !strings.Contains(text, "node-3") {
		t.Errorf("the diff of a pool is %q", text)
	}
	a.want(http.StatusUnprocessableEntity, request{method: http.MethodPost, path: "/api/v1/diff", user: admin, body: yamlOf("kind: nonsense")})
}
