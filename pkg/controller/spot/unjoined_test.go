package spot_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fakecloud"
)

func all(fakecloud.Machine) bool { return true }

// paid is how long all machines together were paid for.
func (w *world) paid() (out time.Duration) {
	for _, m := range w.cloud.Machines() {
		end := w.clock.Now()
		if !m.Ended.IsZero() {
			end = m.Ended
		}
		out += end.Sub(m.Launched)
	}
	return out
}

func (w *world) condition(kind string) metav1.Condition {
	w.Helper()
	condition := meta.FindStatusCondition(w.pool().Status.Conditions, kind)
	if condition == nil {
		w.Fatalf("there is no condition %s", kind)
	}
	return *condition
}

// touch writes a Secret again, and has the controller look at once, as it does when it sees that.
func (w *world) touch(name string, values map[string]string) {
	w.Helper()
	var secret corev1.Secret
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: "g8s-spot", Name: name}, &secret); err != nil {
		w.Fatal(err)
	}
	for key, value := range values {
		secret.Data[key] = []byte(value)
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, "touched", w.clock.Now().String())
	if err := w.client.Update(w.Context(), &secret); err != nil {
		w.Fatal(err)
	}
	w.due = w.clock.Now()
}

// TestAHundredMachinesThatCannotJoin cost about as much as one machine for a few hours, whether or not the controller starts again.
func TestAHundredMachinesThatCannotJoin(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"one controller": false, "a new controller every 10 min": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, func(s *g8s.SpotPoolSpec) { s.Minimum, s.Maximum = 100, 200 })
			w.mute = all
			for range 24 * 6 {
				w.leap(10 * time.Minute)
				if restarts {
					w.begin(nil)
				}
			}
			bought, paid := len(w.cloud.Machines()), w.paid()
			t.Logf("%d machines were bought in a day, and paid for %.1f h", bought, paid.Hours())
			if bought < 12 || bought > 20 || paid > 6*time.Hour {
				t.Errorf("%d machines were bought in a day, and paid for %.1f h", bought, paid.Hours())
			}
			before := bought
			w.leap(24 * time.Hour)
			if bought = len(w.cloud.Machines()) - before; bought < 4 || bought > 7 {
				t.Errorf("%d machines were bought on the second day", bought)
			}
			joins := w.condition(g8s.ConditionMachinesJoin)
			for _, says := range []string{"was no ready node after 900 s: no kubelet registered its node", "times in a row", "the next machine is bought at 2026-01-0"} {
				if joins.Status != metav1.ConditionFalse || !strings.Contains(joins.Message, says) {
					t.Errorf("the condition is %v, want %q", joins, says)
				}
			}
			if !w.tells(poolName + " MachinesDoNotJoin: machine ") {
				t.Errorf("the events are\n%s", strings.Join(w.events.all(), "\n"))
			}
			w.leavesNothing()
		})
	}
}

// TestMachinesThatCanJoinAfterAll come at once when what they run, or what they are, changes; and not when the size does.
func TestMachinesThatCanJoinAfterAll(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*world)
		want   bool
	}{
		"the user data":            {func(w *world) { w.touch("join", map[string]string{"script": "kubeadm join --token other"}) }, true},
		"a Secret that is touched": {func(w *world) { w.touch("join", nil) }, true},
		"the image": {func(w *world) {
			w.change(func(s *g8s.SpotPoolSpec) { s.Template.Image = "img-2" })
			w.due = w.clock.Now()
		}, true},
		"the time that they have": {func(w *world) {
			w.change(func(s *g8s.SpotPoolSpec) { s.JoinSeconds = ptr.To[int32](1200) })
			w.due = w.clock.Now()
		}, true},
		"the size": {func(w *world) {
			w.change(func(s *g8s.SpotPoolSpec) { s.Minimum, s.Maximum = 5, 9 })
			w.due = w.clock.Now()
		}, false},
		"a pod that waits longer": {func(*world) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, nil)
			w.mute = all
			w.leap(6 * time.Hour)
			for w.clock.Now().After(w.pool().Status.Joining.RetryAfter.Add(-time.Hour)) { // until the next is far away
				w.leap(time.Minute)
			}
			w.mute = nil
			tc.change(w)
			w.run(2 * time.Minute)
			if joined := w.pool().Status.Joined == w.pool().Spec.Minimum; joined != tc.want {
				t.Errorf("%d machines have joined; %v", w.pool().Status.Joined, w.condition(g8s.ConditionMachinesJoin))
			}
			if !tc.want {
				return
			}
			if joins := w.condition(g8s.ConditionMachinesJoin); joins.Status != metav1.ConditionTrue || w.pool().Status.Joining.Failures != 0 {
				t.Errorf("the condition is %v", joins)
			}
		})
	}
}

// TestOneThatJoinsBringsTheOthers: while machines do not join one at a time is tried, and when that joins the others come at once.
func TestOneThatJoinsBringsTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	w.run(2 * time.Minute)
	w.mute = func(m fakecloud.Machine) bool {
		return m.Launched.After(w.clock.Now().Add(-time.Hour)) && m.ID > "ins-000004"
	}
	for _, m := range w.staying() {
		w.cloud.Interrupt(m.ID, 0)
	}
	w.leap(16 * time.Minute)
	bought := len(w.cloud.Machines())
	w.leap(20 * time.Minute)
	if probes := len(w.cloud.Machines()) - bought; bought != 8 || probes != 1 {
		t.Errorf("%d machines were bought, and %d later, want 8 and 1", bought, probes)
	}
	w.mute = nil
	w.leap(30 * time.Minute)
	if status := w.pool().Status; status.Joined != 4 || status.Joining.Failures != 0 || status.Joining.LastJoined == nil {
		t.Errorf("%d machines have joined, %+v", status.Joined, status.Joining)
	}
}

// TestOneZoneInWhichMachinesCannotJoin: they come in the other, which is not the preferred one.
func TestOneZoneInWhichMachinesCannotJoin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	w.mute = func(m fakecloud.Machine) bool { return m.Zone == "a" }
	w.leap(time.Hour)
	if status := w.pool().Status; status.Joined != 4 {
		t.Fatalf("%d machines have joined: %v", status.Joined, w.condition(g8s.ConditionMachinesJoin))
	}
	w.cloud.Stock("GN10", "b", 0)
	w.cloud.Stock("GN8", "b", 0)
	for _, m := range w.staying() {
		w.cloud.Interrupt(m.ID, 0)
	}
	before, paid := len(w.cloud.Machines()), w.paid()
	w.leap(3 * time.Hour)
	t.Logf("%d machines of the zone were bought in 3 h, and paid for %.1f h", len(w.cloud.Machines())-before, (w.paid() - paid).Hours())
	if w.paid()-paid > 150*time.Minute { // eight machines, of 15 minutes and what it takes to end them
		t.Errorf("machines of a zone where none joins were paid for %.1f h in 3 h", (w.paid() - paid).Hours())
	}
	w.cloud.Restock()
	w.leap(2 * time.Hour)
	if status := w.pool().Status; status.Joined != 4 {
		t.Errorf("%d machines have joined", status.Joined)
	}
}

// TestASpotPoolIsDeletedWhileMachinesDoNotJoin, and its Secret of user data before it.
func TestASpotPoolIsDeletedWhileMachinesDoNotJoin(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Minute, 16 * time.Minute, 21 * time.Minute} {
		w := newWorld(t, 1, nil)
		w.mute = all
		w.run(after)
		if err := w.client.Delete(w.Context(), secretOf("join", nil)); err != nil {
			t.Fatal(err)
		}
		w.leavesNothing()
	}
}

// TestUserDataThatIsMissing keeps machines from being bought, and nothing else.
func TestUserDataThatIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	w.run(2 * time.Minute)
	if err := w.client.Delete(w.Context(), secretOf("join", nil)); err != nil {
		t.Fatal(err)
	}
	for _, m := range w.staying()[:2] {
		w.cloud.Interrupt(m.ID, 30*time.Second)
	}
	w.run(3 * time.Minute)
	answers := w.condition(g8s.ConditionCloudAnswers)
	if status := w.pool().Status; status.Size != 2 || len(status.Machines) != 2 || answers.Reason != "CannotBuy" ||
		!strings.Contains(answers.Message, "there is no Secret g8s-spot/join") {
		t.Errorf("%d machines of which %d stay, %v", len(status.Machines), status.Size, answers)
	}
	w.create(secretOf("join", map[string]string{"script": canaryScript}))
	w.run(2 * time.Minute)
	if status := w.pool().Status; status.Joined != 4 {
		t.Errorf("%d machines have joined", status.Joined)
	}
}

// TestAnAccountThatIsMendedIsTriedAtOnce, though the cloud has refused it for an hour.
func TestAnAccountThatIsMendedIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	w.cloud.Denied = true
	w.leap(time.Hour)
	w.leap(w.pool().Status.RetryAfter.Sub(w.clock.Now()) + 10*time.Second) // the next is minutes away
	w.cloud.Denied = false
	w.touch("account", nil)
	w.run(time.Second)
	if answers := w.condition(g8s.ConditionCloudAnswers); answers.Status != metav1.ConditionTrue {
		t.Errorf("the condition is %v", answers)
	}
}

// TestMachinesWithoutAddresses join by their names, and their addresses are told when they have them.
func TestMachinesWithoutAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, func(s *g8s.SpotPoolSpec) {
		s.Template.Internet = &g8s.MachineInternet{BandwidthMbps: 1, ChargeType: g8s.InternetBandwidth}
	})
	w.cloud.AddressesAfter = 3 * time.Minute
	w.run(2 * time.Minute)
	for _, m := range w.pool().Status.Machines {
		if m.State != g8s.MachineJoined || m.PrivateIP+m.PublicIP != "" {
			t.Errorf("before they have addresses: %+v", m)
		}
	}
	w.run(2 * time.Minute)
	for _, m := range w.pool().Status.Machines {
		if m.PrivateIP == "" || !strings.HasPrefix(m.PublicIP, "203.0.113.") {
			t.Errorf("when they have addresses: %+v", m)
		}
	}
}
