package why

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/rights"
)

// ask returns the flags with which gpuctl finds the scheduler.
func ask() []string {
	return []string{
		fmt.Sprintf("--scheduler=https://127.0.0.1:%d", port),
		"--scheduler-ca=" + filepath.Join(cluster.Dir(), "certs", "gpu-scheduler", "kube-scheduler.crt"),
	}
}

func TestTheSchedulerExplainsItself(t *testing.T) {
	t.Run("a pod that waits, with the reasons by number of nodes", func(t *testing.T) {
		e := newEnv(t)
		e.createNodes(e.node("n").GPUs(8, a100).Obj(), e.node("m").GPUs(8, t4).Obj(), e.node("o").Pool(e.pool+"-2").GPUs(8, a100).Obj())
		e.hold("n", 5)
		e.waits(e.pod(4).Type(a100).Obj())
		report := e.why(ask()...)
		if len(report.Records) != 1 || report.Records[0].Last.Result != explain.Unschedulable {
			t.Fatalf("the records are %+v, want one that is unschedulable", report.Records)
		}
		last, seen := report.Records[0].Last, 0
		for _, reason := range last.Reasons {
			seen += reason.Nodes
		}
		if seen != last.Nodes || last.Nodes < 3 {
			t.Errorf("%d nodes have a reason, of %d: %+v", seen, last.Nodes, last.Reasons)
		}
		if len(last.NearMisses) != 1 || last.NearMisses[0].Node != e.namespace+"-n" || last.NearMisses[0].Short != 1 {
			t.Errorf("the nearest misses are %+v, want node n, 1 short", last.NearMisses)
		}
	})
	t.Run("a pod that runs, with the scores by part", func(t *testing.T) {
		e := newEnv(t)
		e.createNodes(e.node("n").GPUs(8, a100).Obj(), e.node("m").GPUs(8, a100).Obj())
		e.hold("n", 4)
		e.submit(e.pod(2).Obj())
		pod := e.bound()
		var last explain.Attempt
		e.eventually("the record of the binding", func(ctx context.Context) bool {
			report := e.why(ask()...)
			if len(report.Records) == 1 {
				last = report.Records[0].Last
			}
			return last.Result == explain.Placed
		})
		if last.Node != pod.Spec.NodeName || len(last.Candidates) != 2 || last.Candidates[0].Node != last.Node || len(last.Candidates[0].Parts) < 3 {
			t.Errorf("the record is %+v, want node %s the best of two, with parts", last, pod.Spec.NodeName)
		}
		if stdout, _ := e.gpuctl(append([]string{"why", "job"}, ask()...)...); !strings.Contains(stdout, "UTILIZATION") {
			t.Errorf("the answer has no scores:\n%s", stdout)
		}
	})
}

// TestRecordsAreGuarded asks as nobody, as a user without the right, and as one who was given that of one namespace.
func TestRecordsAreGuarded(t *testing.T) {
	e := newEnv(t)
	e.createNodes(e.node("n").GPUs(8, a100).Obj())
	e.waits(e.pod(16).Obj())
	get := func(user, namespace string) int {
		t.Helper()
		config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
		if user != "" {
			config.BearerToken = e.token(user)
		}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/explain/v1/pods/%s/", port, namespace))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }() // only the status counts
		return response.StatusCode
	}
	e.grant("reader", "/explain/v1/pods/"+e.namespace+"/*")
	for name, tc := range map[string]struct {
		user, namespace string
		want            int
	}{
		"nobody":                              {namespace: e.namespace, want: http.StatusForbidden},
		"a user without the right":            {user: "stranger", namespace: e.namespace, want: http.StatusForbidden},
		"a user with the right of the space":  {user: "reader", namespace: e.namespace, want: http.StatusOK},
		"the same user, in another namespace": {user: "reader", namespace: "kube-system", want: http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			if got := get(tc.user, tc.namespace); got != tc.want {
				t.Errorf("status %d, want %d", got, tc.want)
			}
		})
	}
}

// TestAStandbyNamesTheLeader asks a second scheduler, which waits to become the leader.
func TestAStandbyNamesTheLeader(t *testing.T) {
	own, err := freePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	standby, err := cluster.StartScheduler(t.Context(), sandbox.SchedulerOptions{Name: "standby", Args: explainOn(own)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := standby.Stop(); err != nil {
			t.Error(err)
		}
	}()
	e := newEnv(t)
	e.createNodes(e.node("n").GPUs(8, a100).Obj())
	e.waits(e.pod(16).Obj())
	_, stderr := e.gpuctl("why", "job", "--scheduler-insecure-skip-tls-verify", fmt.Sprintf("--scheduler=https://127.0.0.1:%d", own))
	lease, err := client.CoordinationV1().Leases("kube-system").Get(t.Context(), "gpu-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"stands by", *lease.Spec.HolderIdentity} {
		if !strings.Contains(stderr, want) {
			t.Errorf("gpuctl says %q, want it to name %q", stderr, want)
		}
	}
}

// TestRightsOnOneNamespace asks as a user who may not read nodes: the scheduler's message must do.
func TestRightsOnOneNamespace(t *testing.T) {
	e := newEnv(t)
	e.createNodes(e.node("n").GPUs(8, a100).Obj())
	e.hold("n", 6)
	e.waits(e.pod(4).Obj())
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "viewer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: e.namespace, Name: "viewer"}},
	}
	if _, err := client.RbacV1().RoleBindings(e.namespace).Create(e.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := rights.Await(e.Context(), client, e.namespace, binding.RoleRef, binding.Subjects[0]); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	token := e.token("viewer")
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	e.kubeconfig = filepath.Join(t.TempDir(), "viewer")
	if err := clientcmd.WriteToFile(*config, e.kubeconfig); err != nil {
		t.Fatal(err)
	}
	e.want(reason.Busy, "Less exact", string(snapshot.PartNodes), string(snapshot.PartAllPods))
	if slices.Contains(e.why().Unread, snapshot.PartLease) {
		t.Error("who waits may not see whether a scheduler leads")
	}
}

// grant lets a service account of the test's namespace read a path.
func (e *env) grant(account, path string) {
	e.Helper()
	name := e.namespace + "-" + account
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{path}, Verbs: []string{"get"}}},
	}
	if _, err := client.RbacV1().ClusterRoles().Create(e.Context(), role, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: e.namespace, Name: account}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(e.Context(), binding, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	if err := rights.Await(e.Context(), client, "", binding.RoleRef, binding.Subjects[0]); err != nil {
		e.Fatal(err)
	}
}

// token makes a service account in the test's namespace, and returns what it proves itself with.
func (e *env) token(account string) string {
	e.Helper()
	accounts := client.CoreV1().ServiceAccounts(e.namespace)
	_, err := accounts.Create(e.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		e.Fatal(err)
	}
	token, err := accounts.CreateToken(e.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return token.Status.Token
}

// TestWithoutAScheduler takes the scheduler away for a while.
func TestWithoutAScheduler(t *testing.T) {
	if err := scheduler.Stop(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := startScheduler(t.Context()); err != nil {
			t.Fatal(err)
		}
	}()
	e := newEnv(t)
	e.createNodes(e.node("n").GPUs(8, a100).Obj())
	e.submit(e.pod(1).Obj())
	e.exists()
	e.want(reason.SchedulerDown, "no gpu-scheduler is running", "have the administrators start it")
}
