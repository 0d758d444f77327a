package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/server"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/rights"
)

// newcomer is a ServiceAccount of a namespace with roles in the team, and its token.
func newcomer(t *testing.T, namespace, name string, roles ...string) *rbacv1.RoleBinding {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var last *rbacv1.RoleBinding
	for _, role := range roles {
		to := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
		bound, err := client.RbacV1().RoleBindings(team).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: name}, RoleRef: roleRef(role), Subjects: []rbacv1.Subject{to},
		}, metav1.CreateOptions{})
		if err == nil {
			err = rights.Await(t.Context(), client, team, bound.RoleRef, to)
		}
		if err != nil {
			t.Fatal(err)
		}
		last = bound
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	users[name] = token.Status.Token
	t.Cleanup(func() { delete(users, name) })
	return last
}

// TestAStreamEndsWithItsRight within the time that the server is told, whatever carries it and though nothing happens on
// it: output, which the API server would go on sending, and the watch of jobs.
func TestAStreamEndsWithItsRight(t *testing.T) {
	const ttl = 2 * time.Second
	a := start(t, server.Options{ReviewTTL: ttl})
	node := newKubelet(a, "ending")
	a.create("ending", training("ending"))
	node.run("ending")
	node.print("one")
	right := newcomer(t, "users", "dismissed", "g8s:reader")
	a.eventually("the right", func() bool {
		return a.do(request{path: jobs + "/ending?namespace=team", user: "dismissed"}).status == http.StatusOK
	})
	followed := a.dial(t.Context(), jobs+"/ending/logs/ws?namespace=team", "dismissed")
	followed.until("log")
	streams := map[string]<-chan event{
		"output": a.events(t.Context(), request{path: jobs + "/ending/logs?namespace=team&follow=true", user: "dismissed"}),
		"watch":  a.events(t.Context(), request{path: jobs + "?watch=true&namespace=team", user: "dismissed"}),
	}
	a.until(streams["output"], "log", "")
	a.until(streams["watch"], "synced", "")
	if err := client.RbacV1().RoleBindings(team).Delete(t.Context(), right.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	taken := time.Now()
	followed.closes(websocket.ClosePolicyViolation, "may not list pods in namespace team")
	for name, stream := range streams {
		var last event
		for e := range stream {
			last = e
		}
		if last.name != "error" || last.data["code"] != "Forbidden" {
			t.Errorf("the last event of the %s is %s %v", name, last.name, last.data)
		}
	}
	if took := time.Since(taken); took > ttl+bounds.Of(8*time.Second) {
		t.Errorf("the streams ended %s after the right, want %s", took, ttl)
	}
}

// TestOutputNeedsItsOwnRight, as long as it is followed: pods may be listed by who may not read what they print.
func TestOutputNeedsItsOwnRight(t *testing.T) {
	a := start(t, server.Options{ReviewTTL: time.Second})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "deaf"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "batch", "apps"}, Resources: []string{"pods", "jobs", "deployments", "services", "events"}, Verbs: []string{"get", "list", "watch"}},
	}}
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.RbacV1().ClusterRoles().Delete(context.Background(), "deaf", metav1.DeleteOptions{})
	})
	a.create("silent", training("silent"))
	newcomer(t, "users", "deaf", "deaf")
	a.eventually("the right to list", func() bool {
		return a.do(request{path: jobs + "?namespace=team", user: "deaf"}).status == http.StatusOK
	})
	refused := a.want(http.StatusForbidden, request{path: jobs + "/silent/logs?namespace=team&follow=true", user: "deaf"})
	if text := fmt.Sprint(refused["error"]); !strings.Contains(text, "may not get pods/log in namespace team") {
		t.Errorf("the error is %q", text)
	}
}

// TestTheServerReachesNothingOfKubernetesItself with its own token, whoever has it: no group and no user of Kubernetes', and
// no ServiceAccount but those of the namespaces that were bound.
func TestTheServerReachesNothingOfKubernetesItself(t *testing.T) {
	bindPeople(t)
	tests := map[string]struct {
		as      rest.ImpersonationConfig
		allowed bool
	}{
		"a person who is named":                         {as: rest.ImpersonationConfig{UserName: "ada@example.com", Groups: []string{"ml-team"}}, allowed: true},
		"a person who is named, as an administrator":    {as: rest.ImpersonationConfig{UserName: "ada@example.com", Groups: []string{"system:masters"}}},
		"a ServiceAccount of a namespace that is bound": {as: rest.ImpersonationConfig{UserName: "system:serviceaccount:users:admin"}, allowed: true},
		"with the group of administrators":              {as: rest.ImpersonationConfig{UserName: "system:serviceaccount:users:admin", Groups: []string{"system:masters"}}},
		"with the groups of another namespace":          {as: rest.ImpersonationConfig{UserName: "system:serviceaccount:users:admin", Groups: []string{"system:serviceaccounts:kube-system"}}},
		"a person":                                      {as: rest.ImpersonationConfig{UserName: "ada"}},
		"a person who is an administrator":              {as: rest.ImpersonationConfig{UserName: "ada", Groups: []string{"system:masters"}}},
		"the controller manager":                        {as: rest.ImpersonationConfig{UserName: "system:kube-controller-manager"}},
		"a node":                                        {as: rest.ImpersonationConfig{UserName: "system:node:node-1", Groups: []string{"system:nodes"}}},
		"a controller's ServiceAccount":                 {as: rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:clusterrole-aggregation-controller"}},
		"the scheduler's ServiceAccount":                {as: rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:gpu-scheduler"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			config := rest.CopyConfig(own)
			config.Impersonate = tc.as
			acting, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			_, err = acting.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 1})
			if allowed := err == nil; allowed != tc.allowed || err != nil && !strings.Contains(err.Error(), "cannot impersonate") {
				t.Errorf("error %v, want it to be allowed: %t", err, tc.allowed)
			}
		})
	}
	ownClient, err := kubernetes.NewForConfig(own)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ownClient.CoreV1().Secrets(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the server may list secrets: %v", err)
	}
}

// bindPeople gives the server the role for people that docs/api.md shows, and those people the right to list nodes.
func bindPeople(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\napiVersion: rbac")
	block, _, _ = strings.Cut("apiVersion: rbac"+block, "```")
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict([]byte(block), &role); err != nil {
		t.Fatal(err)
	}
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), &role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.RbacV1().ClusterRoles().Delete(context.Background(), role.Name, metav1.DeleteOptions{})
	})
	for name, to := range map[string]rbacv1.Subject{
		role.Name:          {Kind: rbacv1.ServiceAccountKind, Namespace: sandbox.ServerNamespace, Name: sandbox.ServerName},
		"g8s:fleet-reader": {Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "ml-team"},
	} {
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "people-"}, RoleRef: roleRef(name), Subjects: []rbacv1.Subject{to}}
		made, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = client.RbacV1().ClusterRoleBindings().Delete(context.Background(), made.Name, metav1.DeleteOptions{})
		})
	}
	acting, err := kubernetes.NewForConfig(own)
	if err != nil {
		t.Fatal(err)
	}
	for { // until the role is in force
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "groups", Name: "ml-team"}}}
		answer, err := acting.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status.Allowed {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestANamespaceThatIsNotBoundIsToldWhatToDo: the server acts for none of its ServiceAccounts, and shows them nothing.
func TestANamespaceThatIsNotBoundIsToldWhatToDo(t *testing.T) {
	a := start(t, server.Options{})
	newcomer(t, other, "stranger", "g8s:reader")
	for _, path := range []string{jobs + "?namespace=team", "/api/v1/auth/check", jobs + "/x/logs?namespace=team&follow=true"} {
		refused := a.want(http.StatusForbidden, request{path: path, user: "stranger"})
		if text := fmt.Sprint(refused["error"]); !strings.Contains(text, "kubectl create rolebinding gpuctl-server -n other --clusterrole=g8s:gpuctl-server-callers") {
			t.Errorf("%s: the error is %q", path, text)
		}
	}
}

// TestNothingToChangeNeedsTheRightToo, and is not told as a success to who lacks it, nor in the audit.
func TestNothingToChangeNeedsTheRightToo(t *testing.T) {
	a := start(t, server.Options{})
	a.create("same", inference("same"))
	tests := map[string]request{
		"a label that is there":        {method: http.MethodPut, path: "/api/v1/nodes/node-1/labels?key=g8s.host/pool", body: map[string]any{"value": "train"}},
		"labels that are there":        {method: http.MethodPost, path: "/api/v1/nodes/labels/batch?nodeNames=node-1&key=g8s.host/pool&value=train"},
		"a label that is not there":    {method: http.MethodDelete, path: "/api/v1/nodes/node-1/labels?key=none"},
		"a pool as it is":              {method: http.MethodPut, path: "/api/v1/pools/train", body: map[string]any{"nodes": []string{"node-1", "node-2"}}},
		"a pool that a node is in":     {method: http.MethodPost, path: "/api/v1/nodes/node-1/pools", body: map[string]any{"pool": "train"}},
		"a job as it is":               {method: http.MethodPut, path: jobs, body: yamlOf(inference("same"))},
		"replicas as they are":         {method: http.MethodPatch, path: jobs + "/same?namespace=team", body: map[string]any{"replicas": 1}},
		"a pool of a job as it is":     {method: http.MethodPatch, path: jobs + "/same?namespace=team", body: map[string]any{"pool": "train"}},
		"a priority of a job as it is": {method: http.MethodPatch, path: jobs + "/same?namespace=team", body: map[string]any{"priority": "medium"}},
	}
	a.want(http.StatusCreated, request{method: http.MethodPost, path: "/api/v1/quotas", user: admin, body: yamlOf(quotaYAML("same", team))})
	t.Cleanup(func() {
		_ = client.CoreV1().ResourceQuotas(team).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	tests["a quota as it is"] = request{method: http.MethodPut, path: "/api/v1/quotas", body: yamlOf(quotaYAML("same", team))}
	// It sees all, and may write nothing.
	newcomer(t, "users", "onlooker", "g8s:reader")
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "onlooker"}, RoleRef: roleRef("g8s:fleet-reader"), Subjects: subject("onlooker")}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.eventually("the right to see", func() bool {
		return a.do(request{path: "/api/v1/nodes", user: "onlooker"}).status == http.StatusOK &&
			a.do(request{path: jobs + "/same?namespace=team", user: "onlooker"}).status == http.StatusOK
	})
	for name, r := range tests {
		t.Run(name, func(t *testing.T) {
			r.user = "onlooker"
			if got := a.do(r); got.status != http.StatusForbidden {
				t.Errorf("status %d, want 403: %.300s", got.status, got.body)
			}
			r.user = admin
			if got := a.do(r); got.status >= 300 && got.status != http.StatusNotFound {
				t.Errorf("who may gets %d: %.300s", got.status, got.body)
			}
		})
	}
	for line := range strings.SplitSeq(a.log.String(), "\n") {
		if strings.Contains(line, `"Audit"`) && strings.Contains(line, ":onlooker") && !strings.Contains(line, `"status":403`) {
			t.Errorf("the audit says %s", line)
		}
	}
}

// TestAPodOfOthersTellsNothingOfItsJob, and the audit of its deletion names what was asked.
func TestAPodOfOthersTellsNothingOfItsJob(t *testing.T) {
	a := start(t, server.Options{})
	// One that the caller may see, so that there are namespaces to say of that it is in none of them.
	for namespace, job := range map[string]string{other: "secret-name", team: "own-name"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "worker-x", Labels: map[string]string{names.LabelJob: job, names.LabelJobType: "training"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox"}}},
		}
		if namespace == team {
			pod.Name = "worker-y"
		}
		if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = client.CoreV1().Pods(namespace).Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		})
	}
	a.eventually("the caller's own job to be seen", func() bool {
		return strings.Contains(string(a.do(request{path: jobs + "?namespace=team", user: admin}).body), "own-name")
	})
	a.eventually("the job to be seen", func() bool {
		return strings.Contains(string(a.do(request{path: jobs + "/worker-x?namespace=other", user: admin}).body), "secret-name")
	})
	for _, r := range []request{
		{method: http.MethodDelete, path: jobs + "/worker-x?namespace=other"},
		{method: http.MethodDelete, path: jobs + "/worker-x"},
		{method: http.MethodPost, path: jobs + "/worker-x/pause?namespace=other"},
		{path: jobs + "/worker-x?namespace=other"}, {path: jobs + "/worker-x/explain?namespace=other"}, {path: jobs + "/worker-x/logs?namespace=other"},
		{path: jobs + "/worker-x/metrics?namespace=other"},
	} {
		r.user = member
		got := a.do(r)
		want := http.StatusForbidden
		if !strings.Contains(r.path, "namespace=") {
			want = http.StatusNotFound // it is none of those that the caller may see
		}
		if got.status != want || strings.Contains(string(got.body), "secret-name") {
			t.Errorf("%s %s: status %d: %s", r.method, r.path, got.status, got.body)
		}
	}
}

// TestAThousandLabelsAreAskedForOnce: who may not is told at once, and who may waits for one list of nodes.
func TestAThousandLabelsAreAskedForOnce(t *testing.T) {
	a := start(t, server.Options{})
	var path strings.Builder
	path.WriteString("/api/v1/nodes/labels/batch?key=a&value=b")
	for i := range 1000 {
		fmt.Fprintf(&path, "&nodeNames=n%d", i)
	}
	began := time.Now()
	a.want(http.StatusForbidden, request{method: http.MethodPost, path: path.String(), user: member})
	if took := time.Since(began); took > bounds.Of(5*time.Second) {
		t.Errorf("the refusal took %s", took)
	}
	began = time.Now()
	failed, _ := a.want(http.StatusMultiStatus, request{method: http.MethodPost, path: path.String(), user: admin})["failed"].([]any)
	if took := time.Since(began); took > bounds.Of(10*time.Second) || len(failed) != 1000 {
		t.Errorf("%d failures took %s", len(failed), took)
	}
}

// TestWhereThingsAreIsNotTold: not where Prometheus is, nor how many jobs there are.
func TestWhereThingsAreIsNotTold(t *testing.T) {
	prometheus := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer prometheus.Close()
	a := start(t, server.Options{Prometheus: prometheus.URL})
	node := newKubelet(a, "measured-node")
	a.create("measured", training("measured"))
	node.run("measured")
	host := strings.TrimPrefix(prometheus.URL, "http://")
	check := func(what string) {
		t.Helper()
		got := a.do(request{path: jobs + "/measured/metrics?namespace=team", user: reader})
		if got.status != http.StatusBadGateway || strings.Contains(string(got.body), host) || strings.Contains(string(got.body), "127.0.0.1") {
			t.Errorf("%s: status %d: %s", what, got.status, got.body)
		}
	}
	check("a Prometheus that hangs up")
	prometheus.Close()
	check("a Prometheus that is not there")
	if !strings.Contains(a.log.String(), host) {
		t.Error("the log does not say where Prometheus is")
	}
	ready := a.want(http.StatusOK, request{path: "/readyz"})
	if len(ready) != 1 || ready["status"] != "ready" {
		t.Errorf("/readyz says %v", ready)
	}
}
