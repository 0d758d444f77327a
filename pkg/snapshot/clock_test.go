package snapshot

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// TestTheLeaseIsReadByTheClockOfTheAPIServer: a machine whose clock is off sees neither a dead scheduler in one that
// leads, nor a living one in one that is dead.
func TestTheLeaseIsReadByTheClockOfTheAPIServer(t *testing.T) {
	server := time.Now()
	tests := map[string]struct {
		// silent is how long ago the lease was renewed, ahead how far this machine's clock is ahead.
		silent, ahead time.Duration
		want          LeaderState
	}{
		"the clocks agree":                          {time.Second, 0, Leads},
		"this clock is ahead of a scheduler":        {time.Second, time.Minute, Leads},
		"this clock is behind one that is dead":     {time.Minute, -5 * time.Minute, LeaderDead},
		"this clock is ahead, and it is dead, too":  {time.Minute, time.Minute, LeaderDead},
		"this clock is behind a scheduler by hours": {time.Second, -2 * time.Hour, Leads},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			lease := coordinationv1.Lease{
				TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
				Spec: coordinationv1.LeaseSpec{
					HolderIdentity: ptr.To("a"), LeaseDurationSeconds: ptr.To[int32](3), RenewTime: &metav1.MicroTime{Time: server.Add(-tc.silent)},
				},
			}
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", server.UTC().Format(http.TimeFormat))
				w.Header().Set("Content-Type", "application/json")
				if strings.Contains(r.URL.Path, "/leases/") {
					_ = json.NewEncoder(w).Encode(lease) // the client is there
				}
			}))
			t.Cleanup(api.Close)
			client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL})
			if err != nil {
				t.Fatal(err)
			}
			read, err := Read(t.Context(), client, Lease(), Clock(server.Add(tc.ahead)))
			if err != nil || read.Leader().State != tc.want {
				t.Errorf("the leader is %+v, error %v, want %s", read.Leader(), err, tc.want)
			}
		})
	}
}
