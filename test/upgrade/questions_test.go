package upgrade

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/rights"
)

// caller asks what a user asks, with the rights that docs/api.md gives them.
type caller struct {
	namespace, kubeconfig, token string
}

func newCaller(t *testing.T, namespace string) *caller {
	t.Helper()
	const name = "ci"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ci := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	server := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: sandbox.ServerNamespace, Name: sandbox.ServerName}
	bind(t, namespace, "g8s:reader", ci)
	bind(t, namespace, "g8s:gpuctl-server-callers", server)
	bind(t, "", "g8s:fleet-reader", ci)
	bind(t, "", "view", ci)
	bind(t, "", "g8s:explain-reader", ci)
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return &caller{namespace: namespace, kubeconfig: kubeconfig, token: config.BearerToken}
}

// bind gives a role in a namespace, "" for the whole cluster, and waits until it holds.
func bind(t *testing.T, namespace, role string, to rbacv1.Subject) {
	t.Helper()
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	meta, subjects := metav1.ObjectMeta{GenerateName: "upgrade-"}, []rbacv1.Subject{to}
	var err error
	if namespace == "" {
		_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	} else {
		_, err = client.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := rights.Await(t.Context(), client, namespace, ref, to); err != nil {
		t.Fatal(err)
	}
}

// standsBy is what a scheduler says that does not lead, to whoever asks for its records.
const standsBy = "this scheduler stands by"

// ledgerFollows is how far the ledger may be behind the cluster.
const ledgerFollows = 5 * time.Second

// ask asks gpuctl of a release all that is of this cluster, the schedulers that run for their records, and the ledger for what
// has ended: each answer speaks of what is there, and warns of nothing.
func (c *caller) ask(t *testing.T, of release, schedulers, ledger *rollout) {
	t.Helper()
	questions := map[string][]string{
		"get jobs": {steadyGang, steadyOne}, "get job " + steadyGang: {steadyGang}, "describe job " + steadyGang: {steadyGang},
		"get nodes": {pool + "-01"}, "get pools": {pool}, "queue": nil, "why " + steadyGang: {steadyGang}, "top jobs": {steadyGang},
		"describe pool " + pool: {pool}, "describe node " + pool + "-01": {pool + "-01"},
	}
	for _, pod := range schedulers.pods {
		address := pod.URL(corev1.URISchemeHTTPS, intstr.FromString("explain"))
		questions["why "+steadyGang+" --scheduler-insecure-skip-tls-verify --scheduler "+address] = []string{steadyGang}
	}
	for question, want := range questions {
		if err := c.answers(t.Context(), of, question, want); err != nil {
			t.Error(err)
		}
	}
	for _, pod := range ledger.pods {
		address := pod.URL(corev1.URISchemeHTTPS, intstr.FromString("https"))
		question := "usage --by job --ledger-insecure-skip-tls-verify --ledger " + address
		var last error
		known := func(ctx context.Context) (bool, error) {
			last = c.answers(ctx, of, question, []string{steadyGang, firstJob})
			return last == nil, nil
		}
		if err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, bounds.Of(ledgerFollows), true, known); err != nil {
			t.Error(last)
		}
	}
}

// answers asks gpuctl of a release one question: an error if it does not speak of what is there, or warns.
func (c *caller) answers(ctx context.Context, of release, question string, want []string) error {
	out, err := of.gpuctl(ctx, c.kubeconfig, "", append(strings.Fields(question), "-n", c.namespace)...)
	if err != nil {
		return err
	}
	for _, text := range want {
		if !strings.Contains(out, text) {
			return fmt.Errorf("gpuctl %s of the %s release: %q is not in its answer:\n%s", question, of.name, text, out)
		}
	}
	if strings.Contains(out, "warning") && !strings.Contains(out, standsBy) {
		return fmt.Errorf("gpuctl %s of the %s release: %s", question, of.name, out)
	}
	return nil
}

// browse asks each server that runs for a job.
func (c *caller) browse(t *testing.T, servers *rollout) {
	t.Helper()
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a certificate of the test's own
	defer insecure.CloseIdleConnections()
	for _, pod := range servers.pods {
		url := fmt.Sprintf("%s/api/v1/jobs/%s?namespace=%s", pod.URL(corev1.URISchemeHTTPS, intstr.FromString("https")), steadyGang, c.namespace)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+c.token)
		answer, err := insecure.Do(request)
		if err != nil {
			t.Error(err)
			continue
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), `"Running"`) {
			t.Errorf("%s says %d %s, %v", pod.Name(), answer.StatusCode, body, err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
