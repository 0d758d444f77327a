package access

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// cluster answers reviews as an API server does, and notes what else it is asked.
type cluster struct {
	*httptest.Server
	// users are those of tokens, and refusals why another token is refused.
	users    map[string]authenticationv1.UserInfo
	refusals map[string]string
	// may says whether a user may list in a namespace, "" for the whole cluster.
	may func(user, namespace string) bool
	// unactable is the name for which the server may not act.
	unactable string
	// broken answers reviews with 500.
	broken bool

	mu      sync.Mutex
	reviews int
	acting  int // reviews of for whom the server may act
	asked   []authenticationv1.TokenReviewSpec
	headers []http.Header
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{
		users: map[string]authenticationv1.UserInfo{"good": {Username: "ada", UID: "7", Groups: []string{"b", "a"},
			Extra: map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {"p"}}}},
		refusals: map[string]string{"expired": "[invalid bearer token, service account token has expired]"},
	}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

func (c *cluster) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		c.reviews++
		if c.broken {
			http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}`, http.StatusInternalServerError)
			return
		}
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		c.asked = append(c.asked, review.Spec)
		review.Status.User, review.Status.Authenticated = c.users[review.Spec.Token], c.users[review.Spec.Token].Username != ""
		review.Status.Error, review.Status.Audiences = c.refusals[review.Spec.Token], review.Spec.Audiences
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		c.reviews++
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		namespace := ""
		if review.Spec.ResourceAttributes != nil {
			namespace = review.Spec.ResourceAttributes.Namespace
		}
		review.Status.Allowed = c.may != nil && c.may(review.Spec.User, namespace)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	case "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
		var review authorizationv1.SelfSubjectAccessReview
		body, _ := io.ReadAll(r.Body)
		_, _, _ = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &review)
		c.acting++
		review.Status.Allowed = review.Spec.ResourceAttributes.Name != c.unactable
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	default:
		c.headers = append(c.headers, r.Header.Clone())
		_, _ = w.Write([]byte(`{"major":"1"}`))
	}
}

func (c *cluster) gate(t *testing.T, o Options) *Gate {
	t.Helper()
	gate, err := New(&rest.Config{Host: c.URL, QPS: -1, BearerToken: "own"}, o)
	if err != nil {
		t.Fatal(err)
	}
	return gate
}

func withToken(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// overSocket is a browser's request for a WebSocket, which offers these subprotocols.
func overSocket(protocols ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	for _, protocol := range protocols {
		r.Header.Add("Sec-Websocket-Protocol", protocol)
	}
	return r
}

func TestIdentify(t *testing.T) {
	c := newCluster(t)
	encoded := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte("good"))
	tests := map[string]struct {
		request *http.Request
		want    string // "" is nobody
	}{
		"a token that the cluster knows":             {request: withToken("good"), want: "ada"},
		"a token that it does not know":              {request: withToken("bad")},
		"a token that has expired, which has a text": {request: withToken("expired")},
		"no token":                                    {request: httptest.NewRequest(http.MethodGet, "/", nil)},
		"an empty token":                              {request: withToken("")},
		"a token of a browser's socket":               {request: overSocket("logs", encoded), want: "ada"},
		"one that no other protocol comes with":       {request: overSocket(encoded)},
		"one that is not encoded":                     {request: overSocket("logs", "base64url.bearer.authorization.k8s.io.!")},
		"two, of which one would have to be believed": {request: overSocket("logs", encoded, encoded)},
		"a protocol with a token, but no socket":      {request: func() *http.Request { r := overSocket("logs", encoded); r.Header.Del("Upgrade"); return r }()},
		"headers of a front proxy, which is not trusted": {request: func() *http.Request {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("X-Remote-User", "ada")
			return r
		}()},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			caller, err := c.gate(t, Options{}).Identify(tc.request)
			switch {
			case tc.want == "" && !errors.Is(err, ErrUnauthenticated):
				t.Errorf("error %v, want ErrUnauthenticated", err)
			case tc.want != "" && (err != nil || caller.User.GetName() != tc.want):
				t.Errorf("the caller is %v, error %v, want %s", caller, err, tc.want)
			}
		})
	}
}

// TestAReviewThatFailsIsNoRefusal: who cannot be asked about is not told that their token is wrong.
func TestAReviewThatFailsIsNoRefusal(t *testing.T) {
	c := newCluster(t)
	c.broken = true
	if _, err := c.gate(t, Options{}).Identify(withToken("good")); err == nil || errors.Is(err, ErrUnauthenticated) {
		t.Errorf("a cluster that fails: error %v", err)
	}
	c.Close()
	if _, err := c.gate(t, Options{}).Identify(withToken("good")); err == nil || errors.Is(err, ErrUnauthenticated) {
		t.Errorf("a cluster that is not there: error %v", err)
	}
}

func TestReviewsAreKeptForAWhile(t *testing.T) {
	c := newCluster(t)
	c.may = func(string, string) bool { return true }
	const ttl = 300 * time.Millisecond
	gate := c.gate(t, Options{TTL: ttl})
	for range 5 {
		caller, err := gate.Identify(withToken("good"))
		if err != nil || caller.CheckListRight(t.Context(), "team", Resource{Resource: "pods"}) != nil {
			t.Fatal(err)
		}
	}
	if c.reviews != 2 {
		t.Errorf("%d reviews of one token and one right, want 2", c.reviews)
	}
	review := gate.TokenReviewer(withToken("good"))
	c.mu.Lock()
	delete(c.users, "good")
	c.mu.Unlock()
	if err := review(t.Context()); err != nil {
		t.Errorf("a kept review is not used: %v", err)
	}
	time.Sleep(2 * ttl)
	if err := review(t.Context()); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("a revoked token is reviewed to %v", err)
	}
	if err := review(t.Context()); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("the token is gone after one review: %v", err)
	}
}

func TestTokensMustBeForTheAudience(t *testing.T) {
	c := newCluster(t)
	if _, err := c.gate(t, Options{Audiences: []string{"gpuctl"}}).Identify(withToken("good")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]authenticationv1.TokenReviewSpec{{Token: "good", Audiences: []string{"gpuctl"}}}, c.asked); diff != "" {
		t.Errorf("reviews (-want +got):\n%s", diff)
	}
}

// TestCallersActAsThemselves wholly: an attribute left out could widen their rights.
func TestCallersActAsThemselves(t *testing.T) {
	c := newCluster(t)
	caller, err := c.gate(t, Options{}).Identify(withToken("good"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := caller.Kubernetes.Discovery().ServerVersion(); err != nil {
		t.Fatal(err)
	}
	got := c.headers[0]
	for name, want := range map[string][]string{
		"Authorization": {"Bearer own"}, "Impersonate-User": {"ada"}, "Impersonate-Uid": {"7"},
		"Impersonate-Group": {"b", "a"}, // and system:authenticated, which the API server adds
		"Impersonate-Extra-Authentication.kubernetes.io%2fpod-Name": {"p"},
	} {
		if diff := cmp.Diff(want, got.Values(name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s\nof %v", name, diff, got)
		}
	}
}

func TestIdentity(t *testing.T) {
	base := user.DefaultInfo{Name: "ada", UID: "7", Groups: []string{"a", "b"}, Extra: map[string][]string{"k": {"v"}}}
	change := func(edit func(*user.DefaultInfo)) *user.DefaultInfo {
		out := base
		edit(&out)
		return &out
	}
	if identityKey(&base) != identityKey(change(func(u *user.DefaultInfo) { u.Groups = []string{"b", "a"} })) {
		t.Error("the order of groups makes another user")
	}
	for what, other := range map[string]*user.DefaultInfo{
		"name":                        change(func(u *user.DefaultInfo) { u.Name = "bob" }),
		"UID":                         change(func(u *user.DefaultInfo) { u.UID = "8" }),
		"groups":                      change(func(u *user.DefaultInfo) { u.Groups = []string{"a"} }),
		"attributes":                  change(func(u *user.DefaultInfo) { u.Extra = nil }),
		"a group that looks like two": change(func(u *user.DefaultInfo) { u.Groups = []string{`a","b`} }),
	} {
		if identityKey(&base) == identityKey(other) {
			t.Errorf("another %s makes no other user, who would get the clients of the first", what)
		}
	}
}

func TestScope(t *testing.T) {
	in := func(namespaces ...string) func(string, string) bool {
		return func(_, namespace string) bool {
			for _, n := range namespaces {
				if n == namespace {
					return true
				}
			}
			return false
		}
	}
	tests := map[string]struct {
		may        func(string, string) bool
		candidates []string
		want       map[string]bool // what the scope has, of team, other and unlisted
		empty      bool
	}{
		"a right in the whole cluster covers what no candidate is": {may: in(""), candidates: []string{"team"},
			want: map[string]bool{"team": true, "other": true, "unlisted": true}},
		"a right in one namespace covers that": {may: in("team"), candidates: []string{"team", "other"},
			want: map[string]bool{"team": true, "other": false, "unlisted": false}},
		"no right covers nothing": {may: in(), candidates: []string{"team", "other"}, empty: true,
			want: map[string]bool{"team": false, "other": false, "unlisted": false}},
		"without candidates nothing is covered": {may: in("team"), empty: true,
			want: map[string]bool{"team": false, "other": false, "unlisted": false}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.may = tc.may
			caller, err := c.gate(t, Options{}).Identify(withToken("good"))
			if err != nil {
				t.Fatal(err)
			}
			scope, err := caller.FindScope(t.Context(), tc.candidates, Resource{Resource: "pods"})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for namespace := range tc.want {
				got[namespace] = scope.Has(namespace)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("scope (-want +got):\n%s", diff)
			}
			if scope.Empty() != tc.empty || scope.Empty() && scope.Denied == nil {
				t.Errorf("empty is %t, want %t; denied is %v", scope.Empty(), tc.empty, scope.Denied)
			}
		})
	}
}

func TestDeniedErrorsSayWhichRightIsMissing(t *testing.T) {
	jobs := Resource{Group: "batch", Resource: "jobs"}
	tests := map[string]struct {
		err  DeniedError
		want string
	}{
		"in a namespace":       {DeniedError{User: "ada", Verb: "list", Resource: jobs, Namespace: "team"}, `user "ada" may not list jobs.batch in namespace team`},
		"in the whole cluster": {DeniedError{User: "ada", Verb: "list", Resource: Resource{Resource: "nodes"}}, `user "ada" may not list nodes in the whole cluster`},
		"of a path":            {DeniedError{User: "ada", Verb: "get", Path: "/metrics"}, `user "ada" may not get /metrics`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.err.Error()); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

// TestForWhomTheServerActs: those for whom it has a right, and nobody who is Kubernetes' own.
func TestForWhomTheServerActs(t *testing.T) {
	robot := user.DefaultInfo{Name: "system:serviceaccount:team-a:ci", UID: "7",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:team-a", "system:authenticated"}}
	with := func(who user.DefaultInfo, groups ...string) *user.DefaultInfo {
		who.Groups = append(append([]string{}, who.Groups...), groups...)
		return &who
	}
	tests := map[string]struct {
		who    user.Info
		groups []string
		needs  []string
		says   string
	}{
		"a ServiceAccount, whose groups follow from its name": {who: &robot, needs: []string{"serviceaccounts team-a/ci"}},
		"a ServiceAccount that is in a group of more":         {who: with(robot, "ml"), groups: []string{"ml"}, needs: []string{"serviceaccounts team-a/ci", "groups /ml"}},
		"a person": {who: &user.DefaultInfo{Name: "ada", Groups: []string{"ml", "system:authenticated"}},
			groups: []string{"ml"}, needs: []string{"users /ada", "groups /ml"}},
		"a ServiceAccount in the group of administrators":     {who: with(robot, "system:masters"), says: `"system:masters"`},
		"a ServiceAccount in the groups of another namespace": {who: with(robot, "system:serviceaccounts:kube-system"), says: `"system:serviceaccounts:kube-system"`},
		"a person in the group of nodes":                      {who: &user.DefaultInfo{Name: "ada", Groups: []string{"system:nodes"}}, says: `"system:nodes"`},
		"the controller manager":                              {who: &user.DefaultInfo{Name: "system:kube-controller-manager"}, says: "Kubernetes' own"},
		"a node":                                              {who: &user.DefaultInfo{Name: "system:node:a", Groups: []string{"system:nodes"}}, says: `"system:node:a"`},
		"nobody":                                              {who: &user.DefaultInfo{Name: "system:anonymous"}, says: "Kubernetes' own"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			config, needed, err := impersonationFor(tc.who)
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error %v, want one that says %s", err, tc.says)
				}
				return
			}
			var needs []string
			for _, right := range needed {
				needs = append(needs, right.Resource+" "+right.Namespace+"/"+right.Name)
			}
			if diff := cmp.Diff(tc.needs, needs); diff != "" || err != nil {
				t.Errorf("error %v, rights (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff(tc.groups, config.Groups); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhoTheServerMayNotActForIsToldSo, whatever they ask.
func TestWhoTheServerMayNotActForIsToldSo(t *testing.T) {
	c := newCluster(t)
	c.unactable = "ada"
	gate, err := New(&rest.Config{Host: c.URL}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var acting *ActingError
	for range 3 {
		if _, err := gate.Identify(withToken("good")); !errors.As(err, &acting) || acting.Kind != "users" || acting.Name != "ada" {
			t.Errorf("error %v", err)
		}
	}
	if c.acting != 1 {
		t.Errorf("the cluster was asked %d times, want once", c.acting)
	}
}

// TestTheServerActsForNobodyLongerThanItMay: what an administrator takes back, or gives, holds as soon as all other rights.
func TestTheServerActsForNobodyLongerThanItMay(t *testing.T) {
	c := newCluster(t)
	const ttl = 300 * time.Millisecond
	gate := c.gate(t, Options{TTL: ttl})
	say := func(unactable string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unactable = unactable
	}
	review := gate.TokenReviewer(withToken("good"))
	first, err := gate.Identify(withToken("good"))
	if err != nil {
		t.Fatal(err)
	}
	say("ada")
	time.Sleep(2 * ttl)
	if _, err := gate.Identify(withToken("good")); !errors.As(err, new(*ActingError)) {
		t.Errorf("a new request: error %v", err)
	}
	if err := review(t.Context()); !errors.As(err, new(*ActingError)) {
		t.Errorf("a stream: error %v", err)
	}
	say("")
	time.Sleep(2 * ttl)
	if again, err := gate.Identify(withToken("good")); err != nil || again != first {
		t.Errorf("error %v, other clients than before: %t", err, again != first)
	}
}
