package policy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/ledger"
)

// TestWhoSaysWhereTheLedgerIs: gpuctl sends credentials there, so users read it, and nothing besides, and do not write it, not
// even those who write all of kube-public.
func TestWhoSaysWhereTheLedgerIs(t *testing.T) {
	if err := cluster.ApplyManifests(t.Context(), manifests.FS, "ledger/address"); err != nil {
		t.Fatal(err)
	}
	bind(t, metav1.NamespacePublic, "edit")
	ana := as(user("ana")).CoreV1()
	evil := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ledger.AddressConfigMap}, Data: map[string]string{ledger.KeyURL: "https://evil"}}
	if _, err := ana.ConfigMaps(metav1.NamespacePublic).Create(t.Context(), evil, dryRun); err != nil {
		t.Errorf("ana cannot write ConfigMaps of kube-public, so this tests nothing: %v", err)
	}
	where := ana.ConfigMaps(ledger.AddressNamespace)
	said, err := where.Get(t.Context(), ledger.AddressConfigMap, metav1.GetOptions{})
	if err != nil || said.Data[ledger.KeyURL] == "" {
		t.Fatalf("ana does not learn where the ledger is: %v", err)
	}
	said.Data = evil.Data
	_, err = where.Update(t.Context(), said, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsForbidden(err) {
		t.Errorf("ana changes where the ledger is: %v", err)
	}
	if err := where.Delete(t.Context(), ledger.AddressConfigMap, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
		t.Errorf("ana takes away where the ledger is: %v", err)
	}
	if _, err := where.Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("ana reads another ConfigMap of kube-system: %v", err)
	}
}
