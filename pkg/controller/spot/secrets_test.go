package spot

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestWhoseSecretItIs: all SpotPools that name a Secret are looked at when it changes, for whichever purpose they name it.
func TestWhoseSecretItIs(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := g8s.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pool := func(name, account, script string) *g8s.SpotPool {
		out := &g8s.SpotPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if account != "" {
			out.Spec.Provider.CredentialsSecret = &g8s.SecretName{Name: account}
		}
		if script != "" {
			out.Spec.Template.UserData = &g8s.SecretKey{SecretName: g8s.SecretName{Name: script}}
		}
		return out
	}
	r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		pool("a", "account", "join"), pool("b", "account", "other"), pool("c", "third", "join"), pool("simulated", "", ""),
	).Build()}
	for secret, want := range map[string][]string{"account": {"a", "b"}, "join": {"a", "c"}, "other": {"b"}, "nobody's": nil} {
		var got []string
		for _, request := range r.poolsNaming(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret}}) {
			got = append(got, request.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("Secret %s is of %v, want %v", secret, got, want)
		}
	}
}
