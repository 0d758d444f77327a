package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/server"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/rights"
)

// patience is how long a test waits for what comes at once on an idle machine.
const patience = bounds.Patience

// The callers of the tests: one who is known and has no rights, one who sees a team's jobs, one who submits them, and
// one who may do everything that the API offers.
const (
	nobody = "nobody"
	reader = "reader"
	member = "member"
	admin  = "admin"
)

// team is the namespace of reader and member; other is one where they have no rights.
const (
	team  = "team"
	other = "other"
)

// makeUsers makes the callers with the roles of manifests/server, and returns their tokens.
func makeUsers(ctx context.Context) (map[string]string, error) {
	for _, name := range []string{team, other, "users"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	itself := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: sandbox.ServerNamespace, Name: sandbox.ServerName}
	if _, err := client.RbacV1().RoleBindings("users").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: sandbox.ServerName}, RoleRef: roleRef("g8s:gpuctl-server-callers"), Subjects: []rbacv1.Subject{itself},
	}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if err := rights.Await(ctx, client, "users", roleRef("g8s:gpuctl-server-callers"), itself); err != nil {
		return nil, err
	}
	inTeam := map[string][]string{reader: {"g8s:reader"}, member: {"g8s:reader", "g8s:user"}}
	inAll := map[string][]string{member: {"g8s:fleet-reader"}, admin: {"g8s:reader", "g8s:user", "g8s:admin"}}
	tokens := map[string]string{}
	for _, name := range []string{nobody, reader, member, admin} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().ServiceAccounts("users").Create(ctx, account, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		for _, role := range inTeam[name] {
			if _, err := client.RbacV1().RoleBindings(team).Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{GenerateName: name}, RoleRef: roleRef(role), Subjects: subject(name),
			}, metav1.CreateOptions{}); err != nil {
				return nil, err
			}
			if err := rights.Await(ctx, client, team, roleRef(role), subject(name)[0]); err != nil {
				return nil, err
			}
		}
		for _, role := range inAll[name] {
			if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{GenerateName: name}, RoleRef: roleRef(role), Subjects: subject(name),
			}, metav1.CreateOptions{}); err != nil {
				return nil, err
			}
			if err := rights.Await(ctx, client, "", roleRef(role), subject(name)[0]); err != nil {
				return nil, err
			}
		}
		token, err := client.CoreV1().ServiceAccounts("users").CreateToken(ctx, name, &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		tokens[name] = token.Status.Token
	}
	return tokens, nil
}

func roleRef(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}

func subject(name string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "users", Name: name}}
}

// api is a server, and what its log says.
type api struct {
	*testing.T
	*httptest.Server
	log *lockedBuffer
}

// start runs a server that has filled its memory.
func start(t *testing.T, options server.Options) *api {
	t.Helper()
	log := &lockedBuffer{}
	options.Log = slog.New(slog.NewJSONHandler(log, nil))
	options.Version = "test"
	if options.Rate == 0 {
		options.Rate, options.Burst = 1e6, 1e6
	}
	s, err := server.New(own, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.RunCache(ctx) }()
	a := &api{T: t, Server: httptest.NewServer(s.Handler()), log: log}
	t.Cleanup(func() {
		a.CloseClientConnections()
		a.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	a.eventually("the server to be ready", func() bool { return a.do(request{path: "/readyz"}).status == http.StatusOK })
	return a
}

func (a *api) eventually(what string, done func() bool) {
	a.Helper()
	err := wait.PollUntilContextTimeout(a.Context(), 50*time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		a.Fatalf("waiting for %s: %v", what, err)
	}
}

// request is one call; the zero value is an anonymous GET of the root.
type request struct {
	method, path, user string
	body               any
	header             map[string]string
}

// response is an answer that was read whole.
type response struct {
	status int
	header http.Header
	body   []byte
}

func (r request) build(ctx context.Context, base string) (*http.Request, error) {
	var body io.Reader
	switch content := r.body.(type) {
	case nil:
	case string:
		body = strings.NewReader(content)
	default:
		data, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	method := r.method
	if method == "" {
		method = http.MethodGet
	}
	out, err := http.NewRequestWithContext(ctx, method, base+r.path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		out.Header.Set("Content-Type", "application/json")
	}
	if token, known := users[r.user]; known {
		out.Header.Set("Authorization", "Bearer "+token)
	} else if r.user != "" {
		out.Header.Set("Authorization", "Bearer "+r.user)
	}
	for name, value := range r.header {
		out.Header.Set(name, value)
	}
	return out, nil
}

func (a *api) do(r request) response {
	a.Helper()
	built, err := r.build(a.Context(), a.URL)
	if err != nil {
		a.Fatal(err)
	}
	answer, err := a.Client().Do(built)
	if err != nil {
		a.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		a.Fatal(err)
	}
	return response{status: answer.StatusCode, header: answer.Header, body: body}
}

// want makes a request, demands its status, and returns the answer as a value.
func (a *api) want(status int, r request) map[string]any {
	a.Helper()
	got := a.do(r)
	if got.status != status {
		a.Fatalf("%s %s as %q: status %d, want %d\n%s\nlog: %s", r.method, r.path, r.user, got.status, status, got.body, a.log)
	}
	var out map[string]any
	if err := json.Unmarshal(got.body, &out); err != nil && len(got.body) > 0 && got.body[0] == '{' {
		a.Fatalf("%v in %s", err, got.body)
	}
	return out
}

// training is a job's YAML.
func training(name string) string {
	return fmt.Sprintf(`kind: training
job: {name: %s, namespace: team}
environment: {image: busybox, command: ["sleep", "60"]}
resources: {pool: train, gpu: 1, cpu: 1, memory: 1Gi}
`, name)
}

func inference(name string) string {
	return fmt.Sprintf(`kind: inference
job: {name: %s, namespace: team}
environment: {image: busybox}
resources: {pool: train, gpu: 1, cpu: 1, memory: 1Gi}
service: {replicas: 1, port: 8000}
`, name)
}

// create creates a job as member, and deletes it at the end.
func (a *api) create(name, yaml string) {
	a.Helper()
	a.want(http.StatusCreated, request{method: http.MethodPost, path: "/api/v1/jobs", user: member, body: map[string]any{"yamlContent": yaml}})
	a.Cleanup(func() { a.remove(name) })
}

// remove deletes a job, if it is still there.
func (a *api) remove(name string) {
	ctx := context.Background()
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	for _, err := range []error{
		client.BatchV1().Jobs(team).Delete(ctx, name, background),
		client.AppsV1().Deployments(team).Delete(ctx, "inference-"+name, background),
		client.CoreV1().Services(team).Delete(ctx, "svc-"+name, background),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			a.Error(err)
		}
	}
}
