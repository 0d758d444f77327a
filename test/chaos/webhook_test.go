package chaos

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/test/bounds"
)

// TestAWebhookThatFailsHoldsNoCards: an API server that cannot ask an admission webhook answers each binding with an error of
// the server. It has stored nothing, so nobody asks what became of it, and the cards are free for others.
func TestAWebhookThatFailsHoldsNoCards(t *testing.T) {
	replicas, load := startReplicas(t), newLoad(t)
	leader := replicas.leader()
	replicas.processes = append(replicas.processes, leader)
	webhooks := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	broken, err := webhooks.Create(t.Context(), failingWebhook(load.namespace), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	remove := func() error { return webhooks.Delete(context.Background(), broken.Name, metav1.DeleteOptions{}) }
	t.Cleanup(func() { _ = remove() }) // the test has removed it
	awaitRefusal(t, load.namespace)
	submitted := load.submitting(1)
	submitted()
	told := load.awaitEvent("failed calling webhook")
	if told > bounds.Of(10*time.Second) {
		t.Errorf("the scheduler tells of the refusal after %s", told)
	}
	if insisted := count(t, leader, logInsists); insisted > 0 {
		t.Errorf("it asked %d times what became of a binding", insisted)
	}
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	load.bound(0, 1)
}

// failingWebhook is asked about each binding in a namespace, and nobody listens there.
func failingWebhook(namespace string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "broken-"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "broken.example.com",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
			FailurePolicy:           ptr.To(admissionregistrationv1.Fail),
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding"}},
			}},
		}},
	}
}

// awaitRefusal waits until the API server asks the webhook about bindings.
func awaitRefusal(t *testing.T, namespace string) {
	t.Helper()
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nobody"},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "node"},
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(poll) {
		err := client.CoreV1().Pods(namespace).Bind(t.Context(), binding, metav1.CreateOptions{})
		if err != nil && strings.Contains(err.Error(), "failed calling webhook") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the API server says %v", err)
		}
	}
}

// awaitEvent waits until an event of the namespace says something, and returns after how long.
func (l *load) awaitEvent(text string) time.Duration {
	l.Helper()
	began := time.Now()
	for deadline := began.Add(3 * patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		events, err := client.EventsV1().Events(l.namespace).List(l.Context(), metav1.ListOptions{})
		if err != nil {
			l.Fatal(err)
		}
		for i := range events.Items {
			if strings.Contains(events.Items[i].Note, text) {
				return time.Since(began)
			}
		}
	}
	l.Fatalf("no event says %q", text)
	return 0
}
