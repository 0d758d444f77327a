package api

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/explain"
	explainclient "g8s.host/gpu-scheduler/pkg/explain/client"
	explainserver "g8s.host/gpu-scheduler/pkg/explain/server"
	"g8s.host/gpu-scheduler/pkg/server"
)

// TestExplainHasTheSchedulersRecords of the job's own pods, for callers who could read them from the scheduler.
func TestExplainHasTheSchedulersRecords(t *testing.T) {
	recorder := explain.NewRecorder(explain.DefaultLimits)
	scheduler := httptest.NewTLSServer(explainserver.NewHandler(recorder, nil))
	defer scheduler.Close()
	authority := filepath.Join(t.TempDir(), "ca.crt")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: scheduler.Certificate().Raw})
	if err := os.WriteFile(authority, block, 0o600); err != nil {
		t.Fatal(err)
	}
	a := start(t, server.Options{Scheduler: explainclient.Options{Address: scheduler.URL, CA: authority}})
	a.create("explained", training("explained"))
	var pod *corev1.Pod
	a.eventually("the pod of the job", func() bool {
		pods, err := client.CoreV1().Pods(team).List(t.Context(), metav1.ListOptions{LabelSelector: "g8s.host/job=explained"})
		if err != nil || len(pods.Items) != 1 {
			return false
		}
		pod = &pods.Items[0]
		return true
	})
	earlier := pod.DeepCopy()
	earlier.Name, earlier.UID = "explained-before", "of-a-pod-that-is-gone"
	for _, tried := range []*corev1.Pod{pod, earlier} {
		recorder.Record(tried, explain.Attempt{Time: time.Now(), Result: explain.Unschedulable, Nodes: 3})
	}
	grant := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "explain"}, RoleRef: roleRef("g8s:explain-reader"), Subjects: subject(admin)}
	granted, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), grant, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := client.RbacV1().ClusterRoleBindings().Delete(t.Context(), granted.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	explained := func(user string) map[string]any {
		return a.want(http.StatusOK, request{path: jobs + "/explained/explain?namespace=team", user: user})
	}
	a.eventually("the records of the job", func() bool {
		records, _ := explained(admin)["records"].([]any)
		if len(records) != 1 {
			return false
		}
		record, _ := records[0].(map[string]any)
		return record["uid"] == string(pod.UID)
	})
	hidden := func(report map[string]any) bool {
		unread, _ := report["unread"].([]any)
		return slices.Contains(unread, any("the scheduler's records")) && report["records"] == nil
	}
	if report := explained(member); !hidden(report) {
		t.Errorf("a caller without the right gets %v", report)
	}
	scheduler.Close()
	if report := explained(admin); !hidden(report) || report["cause"] == nil {
		t.Errorf("without a scheduler that answers the report is %v", report)
	}
}
