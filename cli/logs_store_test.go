package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/joblogs"
)

// TestOnlyOfThePastTheLogStoreIsNamed: what waits has printed nothing.
func TestOnlyOfThePastTheLogStoreIsNamed(t *testing.T) {
	of := func(job inventory.Job) error { return &joblogs.NoOutputError{Job: job} }
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no such job":    {&inventory.NotFoundError{Namespace: "team", Name: "sft"}, true},
		"it has ended":   {of(inventory.Job{Finished: &time.Time{}}), true},
		"it is deleted":  {of(inventory.Job{Status: inventory.StatusTerminating}), true},
		"it waits":       {of(inventory.Job{Status: inventory.StatusPending}), false},
		"another reason": {errors.New("no"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&logsOptions{}).isPast(tc.err); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestWhereTheLogStoreIsIsSaid(t *testing.T) {
	tests := map[string]struct {
		said   map[string]string
		status int
		want   string
	}{
		"a page": {said: map[string]string{"log-store-url": "https://logs.test/?q={namespace}/{job}"},
			want: "note: what a job of this name has printed is in the cluster's log store:\n  https://logs.test/?q=team/sft\n"},
		"none":             {said: map[string]string{"url": "https://ledger.test"}},
		"nothing at all":   {status: http.StatusNotFound},
		"not to this user": {status: http.StatusForbidden},
		"a cluster is down": {status: http.StatusTeapot, want: "warning: the log store of the cluster is left out: asking the cluster where its ledger is: " +
			"the server responded with the status code 418 but did not return more information (get configmaps g8s-ledger)\n"},
		"what is no page": {said: map[string]string{"log-store-url": "logs.test"},
			want: "warning: ConfigMap kube-system/g8s-ledger: the address of the log store is no http or https URL\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if tc.status != 0 {
					w.WriteHeader(tc.status)
					return
				}
				_ = json.NewEncoder(w).Encode(corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: tc.said})
			}))
			t.Cleanup(server.Close)
			streams, _, stderr := TestIOStreams("")
			o := &logsOptions{factory: NewFactory(streams), stream: joblogs.Options{Namespace: "team", Job: "sft"}}
			o.factory.config = func() (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil }
			o.printLogStoreNote(t.Context())
			if diff := cmp.Diff(tc.want, stderr.String()); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}
