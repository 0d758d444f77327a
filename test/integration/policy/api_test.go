package policy

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/rights"
)

// TestTheAPISaysWhatIsRefused: the policy's own words reach the client, with 403 and nothing made.
func TestTheAPISaysWhatIsRefused(t *testing.T) {
	if err := cluster.InstallServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	server, err := cluster.StartServer(t.Context(), sandbox.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	restrict(t, map[string]string{"pools.gold-pool": "research"})
	namespace := team(t, nil)
	caller := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: namespace}
	itself := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: sandbox.ServerName, Namespace: sandbox.ServerName}
	for role, subject := range map[string]rbacv1.Subject{
		"g8s:reader": caller, "g8s:user": caller, "g8s:gpuctl-server-callers": itself, // it may act for these accounts
	} {
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
		if _, err := admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Subjects: []rbacv1.Subject{subject}, RoleRef: ref,
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := rights.Await(t.Context(), admin, namespace, ref, subject); err != nil {
			t.Fatal(err)
		}
	}
	token, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(server.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}}

	body, err := json.Marshal(map[string]string{"yamlContent": job("gpu: 1", "gpu: 1, pool: gold-pool")})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/v1/jobs?namespace="+namespace, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token.Status.Token)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var failure struct{ Error, Code string }
	if err := json.NewDecoder(response.Body).Decode(&failure); err != nil {
		t.Fatal(err)
	}
	want := "pool gold-pool is not for namespace " + namespace + ": ask for another pool"
	if response.StatusCode != http.StatusForbidden || failure.Code != "Forbidden" || !strings.Contains(failure.Error, want) ||
		!strings.HasSuffix(failure.Error, "(policy g8s-access)") || strings.Contains(failure.Error, "ValidatingAdmissionPolicy") {
		t.Errorf("%s: %+v, want 403 with %q", response.Status, failure, want)
	}
	jobs, err := admin.BatchV1().Jobs(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(jobs.Items) > 0 {
		t.Errorf("there are %d jobs (%v), want none", len(jobs.Items), err)
	}
}
