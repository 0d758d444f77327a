package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/server/access"
	"g8s.host/gpu-scheduler/pkg/server/feed"
)

// reviews answers reviews as an API server does: everybody is known, and may list what it says.
type reviews struct {
	// may says whether the caller may list in a namespace, "" for the whole cluster.
	may func(namespace string) bool
	// broken answers reviews of rights with 500.
	broken bool
}

func (c *reviews) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	body, _ := io.ReadAll(r.Body)                                                // a review that is not read is answered with no right
	object, _, _ := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil) // the same
	switch review := object.(type) {
	case *authenticationv1.TokenReview:
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "ada"}}
	case *authorizationv1.SelfSubjectAccessReview:
		review.Status.Allowed = true
	case *authorizationv1.SubjectAccessReview:
		if c.broken {
			http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}`, http.StatusInternalServerError)
			return
		}
		review.Status.Allowed = c.may(review.Spec.ResourceAttributes.Namespace)
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(object) // the client is gone
}

// asReviewed is a context of requests of a caller whose rights are reviewed each time anew.
func asReviewed(t *testing.T, c *reviews) context.Context {
	t.Helper()
	cluster := httptest.NewServer(c)
	t.Cleanup(cluster.Close)
	gate, err := access.New(&rest.Config{Host: cluster.URL, QPS: -1}, access.Options{TTL: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	request.Header.Set("Authorization", "Bearer good")
	caller, err := gate.Identify(request)
	if err != nil {
		t.Fatal(err)
	}
	return context.WithValue(t.Context(), callerKey{}, caller)
}

// allowing lets a caller list in these namespaces alone.
func allowing(namespaces ...string) *reviews {
	return &reviews{may: func(namespace string) bool { return slices.Contains(namespaces, namespace) }}
}

// TestJobScope: one who may see jobs where there are none yet has an empty list, and one who may nowhere learns why.
func TestJobScope(t *testing.T) {
	v := &view{jobNamespaces: []string{"busy"}, State: inventory.State{Namespaces: []inventory.Namespace{{Name: "busy"}, {Name: "new"}}}}
	tests := map[string]struct {
		may, has, lacks []string
		denied          bool
	}{
		"everything":           {may: []string{""}, has: []string{"busy", "new", "later"}},
		"where jobs are":       {may: []string{"busy"}, has: []string{"busy"}, lacks: []string{"new"}},
		"where no job is yet":  {may: []string{"new"}, has: []string{"new"}, lacks: []string{"busy"}},
		"nothing":              {denied: true},
		"a namespace that was": {may: []string{"gone"}, denied: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			scope, err := (&Server{}).jobScope(asReviewed(t, allowing(tc.may...)), v, "", v.jobNamespaces)
			if got := errors.As(err, new(*access.DeniedError)); got != tc.denied || (err != nil) != tc.denied {
				t.Fatalf("got %v, want a denial: %t", err, tc.denied)
			}
			for _, namespace := range slices.Concat(tc.has, tc.lacks) {
				if got, want := scope.Has(namespace), slices.Contains(tc.has, namespace); got != want {
					t.Errorf("the scope has %s: %t, want %t", namespace, got, want)
				}
			}
		})
	}
}

// TestTheFirstJobOfANamespaceIsSeen by a watch that is woken before there is a view that knows the namespace.
func TestTheFirstJobOfANamespaceIsSeen(t *testing.T) {
	s := &Server{options: Options{}.withDefaults(), cache: newClusterCache()}
	s.cache.setView(inventory.State{Namespaces: []inventory.Namespace{{Name: "new"}}}, time.Now())
	first := &inventory.Job{Name: "a", Namespace: "new", Kind: "training", Status: inventory.StatusPending}
	s.cache.jobs.Publish([]inventory.Job{*first})
	answer := httptest.NewRecorder()
	watcher := &jobWatcher{server: s, shown: map[string]bool{}, out: &stream{out: answer, control: http.NewResponseController(answer)}}
	changes, _, ok := s.cache.jobs.ChangesSince(0)
	if !ok || len(changes) != 1 || changes[0].Type != feed.Added {
		t.Fatalf("the feed has %v", changes)
	}
	if err := watcher.sendChanges(asReviewed(t, allowing("new")), changes); err != nil {
		t.Fatal(err)
	}
	if !watcher.shown[jobKey(first)] {
		t.Errorf("it was not sent, but %q", answer.Body)
	}
}

func TestAddNamespaces(t *testing.T) {
	known := []string{"b", "d"}
	got := addNamespaces(known, []*inventory.Job{{Namespace: "c"}, {Namespace: "b"}, {Namespace: "e"}, {Namespace: "c"}})
	if diff := cmp.Diff([]string{"b", "c", "d", "e"}, got); diff != "" || len(known) != 2 {
		t.Errorf("the namespaces (-want +got):\n%s", diff)
	}
}
