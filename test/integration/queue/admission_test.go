package queue

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/whatif"
	"g8s.host/gpu-scheduler/test/rights"
)

// TestTheAPIServerIsAsked has jobs for which there is room, and whose pods would be refused: none of the ways to ask
// before says that they start.
func TestTheAPIServerIsAsked(t *testing.T) {
	withSimulator(t)
	tests := map[string]struct {
		bound func(*env)
		job   func(*env) string
		cause reason.Cause
		says  string
		code  int // of create --dry-run=server and of --require-fit
	}{
		"a quota that is too small": {
			bound: func(e *env) { e.bound("team", "2") },
			cause: reason.QuotaExceeded, says: "asks 4 GPUs, the namespace may have 2 (quota team): it never fits", code: 6,
		},
		"a quota that is too small for all pods of a gang": {
			bound: func(e *env) { e.bound("team", "4") },
			job:   func(e *env) string { return e.job("job", 4, 2) },
			cause: reason.QuotaExceeded, says: "asks 8 GPUs, the namespace may have 4 (quota team): it never fits", code: 6,
		},
		"a limit range": {
			bound: func(e *env) { e.limit("64Mi") },
			cause: reason.LimitRangeViolated, says: "maximum memory usage per Container is 64Mi", code: 5,
		},
		"Pod Security": {
			bound: func(e *env) { e.enforce("restricted") },
			cause: reason.PodSecurityViolated, says: "restricted", code: 5,
		},
		"a namespace that is not there": {
			bound: func(e *env) { e.namespace = "nowhere-" + e.namespace },
			cause: reason.RefusedByAPIServer, says: "nowhere-", code: 3,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.createNode(eight(func(*corev1.Node) {})(e.node("n1")))
			e.createNode(eight(func(*corev1.Node) {})(e.node("n2")))
			yaml := e.job("job", 4, 1)
			if tc.job != nil {
				yaml = tc.job(e)
			}
			if answer := e.simulated(yaml); !answer.Jobs[0].Starts {
				t.Fatalf("without the bound it would not start: %+v", answer.Jobs[0].Report)
			}
			e.expect(0, "", yaml, "create", "-f", "-", "--dry-run=server")
			tc.bound(e)
			job := e.simulated(yaml).Jobs[0]
			if job.Starts || job.Cause != tc.cause || len(job.Findings) == 0 || !strings.Contains(job.Findings[0].Text, tc.says) {
				t.Errorf("simulate says that it starts: %t, for cause %q: %+v\nwant %q, with %q", job.Starts, job.Cause, job.Findings, tc.cause, tc.says)
			}
			e.expect(0, "training/job would wait", yaml, "simulate", "-f", "-")
			e.expect(tc.code, tc.says, yaml, "create", "-f", "-", "--dry-run=server")
			e.expect(tc.code, tc.says, yaml, "create", "-f", "-", "--require-fit")
			if jobs, err := client.BatchV1().Jobs(e.namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(jobs.Items) > 0 {
				t.Errorf("%d jobs are there: %v", len(jobs.Items), err)
			}
		})
	}
}

// TestAQuotaInUseIsNoReasonToRefuse: the job would be created, and wait.
func TestAQuotaInUseIsNoReasonToRefuse(t *testing.T) {
	withSimulator(t)
	e := newEnv(t)
	e.createNode(eight(func(*corev1.Node) {})(e.node("n")))
	e.bound("team", "4")
	e.expect(0, "", e.job("first", 4, 1), "create", "-f", "-")
	e.tried("first")
	const waits = "asks 4 GPUs, and 4 of 4 are in use (quota team): it waits until that is free"
	for _, flag := range []string{"--dry-run=server", "--require-fit"} {
		e.expect(0, waits, e.job("second"+strings.Trim(flag, "-=")[:3], 4, 1), "create", "-f", "-", flag)
	}
	if job := e.simulated(e.job("third", 4, 1)).Jobs[0]; job.Starts || job.Cause != reason.QuotaExceeded {
		t.Errorf("simulate says that it starts: %t, for cause %q", job.Starts, job.Cause)
	}
}

// TestJobsOfOneFileShareTheQuota that has room for one of them: nodes have room for both.
func TestJobsOfOneFileShareTheQuota(t *testing.T) {
	withSimulator(t)
	e := newEnv(t)
	e.createNode(eight(func(*corev1.Node) {})(e.node("n")))
	e.bound("team", "4")
	both := e.job("first", 4, 1) + "---\n" + e.job("second", 4, 1)
	answer := e.simulated(both)
	if !answer.Jobs[0].Starts || answer.Jobs[1].Starts || answer.Jobs[1].Cause != reason.QuotaExceeded {
		t.Errorf("got %+v, want the first to start and the second to wait for the quota", answer.Jobs)
	}
	e.expect(0, "training/second asks 4 GPUs, and 4 of 4 are in use (quota team): it waits until that is free", both, "create", "-f", "-")
}

// TestWhatCouldNotBeAskedIsSaid is of a user who may create jobs, and no pods.
func TestWhatCouldNotBeAskedIsSaid(t *testing.T) {
	withSimulator(t)
	e := newEnv(t)
	e.createNode(eight(func(*corev1.Node) {})(e.node("n")))
	e.limit("64Mi")
	e.as("limited", []rbacv1.PolicyRule{
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"*"}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"*"}},
	}, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"list"}}})
	yaml := e.job("job", 4, 1)
	const note = "whether the API server would take the pods of job job could not be asked: you may not create objects of kind Pod"
	e.expect(0, note, yaml, "create", "-f", "-", "--dry-run=server")
	answer := e.simulated(yaml)
	if len(answer.Unchecked) != 1 || !strings.Contains(answer.Unchecked[0], note) {
		t.Errorf("simulate could not ask %q, want %q", answer.Unchecked, note)
	}
	e.expect(0, "Note: "+note, yaml, "simulate", "-f", "-")
}

// simulated asks where the job would go, as a program does.
func (e *env) simulated(yaml string) whatif.Answer {
	e.Helper()
	code, stdout, stderr := e.gpuctl(yaml, "simulate", "-f", "-", "-o", "json")
	var answer whatif.Answer
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || len(answer.Jobs) != strings.Count(yaml, "kind: ") {
		e.Fatalf("gpuctl simulate ends with %d: %v\n%s%s", code, err, stdout, stderr)
	}
	return answer
}

// withSimulator puts the scheduler that was built where gpuctl looks for it.
func withSimulator(t *testing.T) {
	t.Helper()
	tools, err := sandbox.FindTools()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(tools)+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// limit bounds the memory of containers.
func (e *env) limit(memory string) {
	e.Helper()
	_, err := client.CoreV1().LimitRanges(e.namespace).Create(e.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "limits"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
}

// enforce sets the Pod Security level of the namespace.
func (e *env) enforce(level string) {
	e.Helper()
	namespace, err := client.CoreV1().Namespaces().Get(e.Context(), e.namespace, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	namespace.Labels["pod-security.kubernetes.io/enforce"] = level
	if _, err := client.CoreV1().Namespaces().Update(e.Context(), namespace, metav1.UpdateOptions{}); err != nil {
		e.Fatal(err)
	}
}

// as has the commands run as a new service account with rights in the namespace and in the cluster.
func (e *env) as(name string, inNamespace, inCluster []rbacv1.PolicyRule) {
	e.Helper()
	must := func(err error) {
		if err != nil {
			e.Fatal(err)
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := client.CoreV1().ServiceAccounts(e.namespace).Create(e.Context(), account, metav1.CreateOptions{})
	must(err)
	rbac := client.RbacV1()
	_, err = rbac.Roles(e.namespace).Create(e.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: inNamespace}, metav1.CreateOptions{})
	must(err)
	unique := e.namespace + "-" + name
	_, err = rbac.ClusterRoles().Create(e.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: unique}, Rules: inCluster}, metav1.CreateOptions{})
	must(err)
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: e.namespace, Name: name}}
	inside, everywhere := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: unique}
	_, err = rbac.RoleBindings(e.namespace).Create(e.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: inside,
	}, metav1.CreateOptions{})
	must(err)
	_, err = rbac.ClusterRoleBindings().Create(e.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: unique}, Subjects: subjects, RoleRef: everywhere,
	}, metav1.CreateOptions{})
	must(err)
	must(rights.Await(e.Context(), client, e.namespace, inside, subjects[0]))
	must(rights.Await(e.Context(), client, "", everywhere, subjects[0]))
	e.kubeconfig, err = cluster.ServiceAccountKubeconfig(e.Context(), e.namespace, name)
	must(err)
}
