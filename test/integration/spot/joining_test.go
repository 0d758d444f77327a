package spot

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fakecloud"
)

// tencentPool is a SpotPool of Tencent Cloud with public addresses, of a zone and of the Secrets account-NAME and join-NAME.
func tencentPool(name, secrets, zone string) string {
	return fmt.Sprintf(`{apiVersion: g8s.host/v1alpha1, kind: SpotPool, metadata: {name: %[1]s}, spec: {pool: %[1]s, minimum: 2, maximum: 2, joinSeconds: 30,
  provider: {name: TencentCloud, region: ap-singapore, credentialsSecret: {name: account-%[2]s}},
  template: {instanceTypes: [GN7], zones: [{name: %[3]s, subnet: s1}], gpus: 8, image: img-1, network: vpc-1, keyPairs: [skey-1],
    internet: {chargeType: Bandwidth, bandwidthMbps: 1}, userData: {name: join-%[2]s, key: script}}}}`, name, secrets, zone)
}

func secret(name, values string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: g8s-spot}, stringData: {%s}}", name, values)
}

// condition is one of the SpotPool, empty if it is not there.
func (e *env) condition(kind string) metav1.Condition {
	e.Helper()
	if condition := meta.FindStatusCondition(e.status().Conditions, kind); condition != nil {
		return *condition
	}
	return metav1.Condition{}
}

// machinesOf are all that were ever bought for a SpotPool.
func machinesOf(name string) (out []fakecloud.Machine) {
	for _, m := range cloud.Machines() {
		if strings.HasPrefix(m.Name, name+"-") {
			out = append(out, m)
		}
	}
	return out
}

// TestSecretsThatComeLate are seen when they come, by both SpotPools that name them, and machines that cannot join are not bought again
// and again, whoever controls them; they are when what they run changes. Their public addresses are shown.
func TestSecretsThatComeLate(t *testing.T) {
	bounds.SkipInShort(t)
	e, other := newEnv(t, "late"), newEnv(t, "sharing")
	both := []*env{e, other}
	e.passes(func(context.Context, time.Time) {}) // and no machine has a kubelet
	for _, each := range both {
		each.must(tencentPool(each.name, "late", "ap-singapore-2"))
	}
	var again metav1.Time
	e.eventually("the next attempt to be half a minute away", func(context.Context) (bool, error) {
		status := e.status()
		if status.RetryAfter == nil || time.Until(status.RetryAfter.Time) < 25*time.Second {
			return false, nil
		}
		again = *status.RetryAfter
		return strings.Contains(e.condition(names.ConditionCloudAnswers).Message, "there is no Secret g8s-spot/account-late"), nil
	})
	e.must(secret("account-late", "secretId: "+canaryID+", secretKey: "+canaryKey))
	for _, each := range both {
		each.eventually("the account to be seen, and the user data to be missed", func(context.Context) (bool, error) {
			return strings.Contains(each.condition(names.ConditionCloudAnswers).Message, "there is no Secret g8s-spot/join-late"), nil
		})
	}
	if time.Now().After(again.Time) {
		t.Errorf("the account was seen after %s, at the next attempt", again)
	}
	e.must(secret("join-late", `script: "`+canaryScript+`"`))
	for _, each := range both {
		each.eventually("machines that do not join to be told", func(context.Context) (bool, error) {
			return each.condition(names.ConditionMachinesJoin).Status == metav1.ConditionFalse, nil
		})
	}
	e.told(e.name, "MachinesDoNotJoin", "was no ready node after 30 s: no kubelet registered its node; the next machine is bought at ")
	e.restart("late-2")
	e.eventually("the machines to be given back", func(context.Context) (bool, error) { return len(e.status().Machines) == 0, nil })
	if bought := len(machinesOf(e.name)); bought != 2 || e.status().Joining.Failures != 1 {
		t.Errorf("%d machines were bought, want 2; %+v", bought, e.status().Joining)
	}
	if said := e.condition(names.ConditionMachinesJoin); !strings.Contains(said.Message, "the next machine is bought at ") {
		t.Errorf("the condition is %v", said)
	}
	other.gone() // while its machines do not join
	e.hosts()
	e.kubectl("annotate", "secret", "-n", "g8s-spot", "join-late", "retry=1")
	machines := e.joined(2)
	shown := e.kubectl("get", "spotpool", e.name, "-o", `jsonpath={range .status.machines[*]}{.name}{" "}{.publicIP}{"\n"}{end}`)
	for _, m := range machines {
		if m.PublicIP == "" || !strings.Contains(shown, m.Name+" "+m.PublicIP+"\n") {
			t.Errorf("machine %s has the address %q, and shown is\n%s", m.Name, m.PublicIP, shown)
		}
	}
	e.gone()
}

// restart kills the controller, and has another one take over.
func (e *env) restart(name string) {
	e.Helper()
	if err := controller.Kill(); err != nil {
		e.Fatal(err)
	}
	var err error
	if controller, err = startController(e.Context(), sandbox.ControllerName+"-"+name); err != nil {
		e.Fatal(err)
	}
}

// TestWhoMayWhat: view, edit and admin of the whole cluster have SpotPools, those of a namespace have not, and nobody has their status.
func TestWhoMayWhat(t *testing.T) {
	e := newEnv(t, "rights")
	for _, role := range []string{"view", "edit", "admin"} {
		e.kubectl("create", "clusterrolebinding", "all-"+role, "--clusterrole="+role, "--user=all-"+role)
		e.kubectl("create", "rolebinding", "some-"+role, "--clusterrole="+role, "--user=some-"+role, "-n", e.name)
	}
	may := func(user, verb, what string) bool {
		resource, subresource, _ := strings.Cut(what, "/")
		out, _ := cluster.RunKubectl(t.Context(), "auth", "can-i", verb, resource, "--subresource="+subresource, "--as="+user, "-A") // a no is an error, too
		return strings.TrimSpace(string(out)) == "yes"
	}
	e.eventually("the roles to be gathered", func(context.Context) (bool, error) {
		return may("all-admin", "deletecollection", "spotpools.g8s.host"), nil
	})
	for _, tc := range []struct {
		user, verb, what string
		want             bool
	}{
		{"all-view", "list", "spotpools.g8s.host", true},
		{"all-view", "get", "spotpools.g8s.host/status", true},
		{"all-view", "create", "spotpools.g8s.host", false},
		{"all-edit", "create", "spotpools.g8s.host", true},
		{"all-edit", "patch", "spotpools.g8s.host", true},
		{"all-edit", "deletecollection", "spotpools.g8s.host", false},
		{"all-edit", "patch", "spotpools.g8s.host/status", false},
		{"all-admin", "delete", "spotpools.g8s.host", true},
		{"all-admin", "update", "spotpools.g8s.host/status", false},
		{"some-view", "list", "spotpools.g8s.host", false},
		{"some-edit", "create", "spotpools.g8s.host", false},
		{"some-admin", "delete", "spotpools.g8s.host", false},
	} {
		if got := may(tc.user, tc.verb, tc.what); got != tc.want {
			t.Errorf("%s may %s %s: %t, want %t", tc.user, tc.verb, tc.what, got, tc.want)
		}
	}
	e.must(e.simulated("minimum: 0, maximum: 0"))
	const forged = `{"status":{"serial":77,"machines":[{"name":"forged","instance":"ins-1","requested":"2026-01-01T00:00:00Z"}]}}`
	if _, err := cluster.RunKubectl(t.Context(), "patch", "spotpool", e.name, "--subresource=status", "--type=merge", "-p", forged, "--as=all-edit"); err == nil ||
		!strings.Contains(err.Error(), "forbidden") {
		t.Errorf("an editor wrote the status: %v", err)
	}
	e.kubectl("patch", "spotpool", e.name, "--type=merge", "-p", forged, "--as=all-edit") // which changes nothing
	if status := e.status(); status.Serial != 0 || len(status.Machines) > 0 {
		t.Errorf("an editor wrote the status: %+v", status)
	}
	e.gone()
}
