package spot

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bounds"
)

// TestMachinesComeForWhatWaitsAndGo follows a SpotPool from its minimum to its maximum and back, and until nothing is left of it.
func TestMachinesComeForWhatWaitsAndGo(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "elastic")
	e.must(e.simulated("minimum: 1, maximum: 3"))
	first := e.joined(1)[0]
	node := e.node(first.Name)
	if node == nil || node.Labels[names.LabelPool] != e.name || node.Labels[names.LabelGPUType] != "A100-80G" || len(node.Spec.Taints) > 0 {
		t.Fatalf("the node is %v", node)
	}
	e.submit("pretrain", 3, false)
	e.running("pretrain", 3)
	machines := e.joined(3)
	zones := map[string]int{}
	for _, m := range machines {
		zones[m.Zone]++
	}
	if zones["a"] != 2 || zones["b"] != 1 {
		t.Errorf("they are in zones %v, and a has two", zones)
	}
	if status := e.status(); !meta.IsStatusConditionTrue(status.Conditions, names.ConditionReady) {
		t.Errorf("the conditions are %v", status.Conditions)
	}
	e.kubectl("delete", "job", "-n", e.name, "pretrain")
	e.joined(1)
	e.submit("last", 1, false)
	e.running("last", 1)
	e.gone()
}

// TestHalfAGangThatIsInterruptedIsReplacedWhole takes one of two machines back, under a gang that saves its state when it is told.
func TestHalfAGangThatIsInterruptedIsReplacedWhole(t *testing.T) {
	bounds.SkipInShort(t)
	t.Parallel()
	e := newEnv(t, "gang")
	e.must(e.simulated("minimum: 2, maximum: 2"))
	e.joined(2)
	e.submit("pretrain", 2, true)
	before := e.running("pretrain", 2)
	lost := before[0].Spec.NodeName
	end := time.Now().Add(70 * time.Second)
	e.kubectl("annotate", "node", lost, names.AnnotationInterruption+"="+end.UTC().Format(time.RFC3339))
	for _, pod := range before {
		e.told(pod.Name, "CheckpointNow", "its state is to be saved by then")
	}
	e.eventually("the replacement to join before the end", func(context.Context) (bool, error) { return e.status().Joined == 2, nil })
	if time.Now().After(end) {
		t.Error("the replacement came after the end")
	}
	e.eventually("the gang to run again as a whole", func(context.Context) (bool, error) {
		pods := e.pods("pretrain")
		again := len(pods) == 2
		for _, pod := range pods {
			again = again && pod.UID != before[0].UID && pod.UID != before[1].UID && pod.Spec.NodeName != lost
		}
		return again, nil
	})
	t.Logf("the gang runs again %s before the machine ends", time.Until(end).Round(time.Second))
	job, err := client.BatchV1().Jobs(e.name).Get(t.Context(), "pretrain", metav1.GetOptions{})
	if err != nil || job.Status.Failed != 0 || slices.ContainsFunc(job.Status.Conditions, isFailed) {
		t.Errorf("the job has the status %v, %v", job.Status, err)
	}
	e.eventually("nothing of the machine to be left", func(context.Context) (bool, error) {
		return e.node(lost) == nil && len(e.status().Machines) == 2, nil
	})
	e.gone()
}

// TestNoPodIsBoundToAMachineThatBoots, though its node is there and has the labels of its pool.
func TestNoPodIsBoundToAMachineThatBoots(t *testing.T) {
	bounds.SkipInShort(t)
	t.Parallel()
	e := newEnv(t, "boots")
	e.must(strings.Replace(e.simulated("minimum: 2, maximum: 2"), "bootSeconds: 2", "bootSeconds: 15", 1))
	e.submit("pretrain", 2, false)
	for _, pod := range e.running("pretrain", 2) {
		bound := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		node := e.node(pod.Spec.NodeName)
		ready := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
		if at, since := pod.Status.Conditions[bound].LastTransitionTime, node.Status.Conditions[ready].LastTransitionTime; at.Before(&since) {
			t.Errorf("pod %s was bound %s before its machine had started", pod.Name, since.Sub(at.Time))
		}
	}
	e.gone()
}

func isFailed(c batchv1.JobCondition) bool {
	return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue
}

// TestWhatASpotPoolMayAsk: the API server refuses what nobody can mean, and what must not be there.
func TestWhatASpotPoolMayAsk(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "asked")
	tencent := `{apiVersion: g8s.host/v1alpha1, kind: SpotPool, metadata: {name: asked}, spec: {pool: p, minimum: 0, maximum: 0,
  provider: {name: TencentCloud, region: r, credentialsSecret: {name: s}},
  template: {instanceTypes: [x], zones: [{name: a, subnet: s}], gpus: 1, image: img-1, network: vpc-1}}}`
	good := e.simulated("minimum: 0, maximum: 0")
	replace := func(text, old, by string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("no %q in %s", old, text)
		}
		return strings.Replace(text, old, by, 1)
	}
	tests := map[string]struct{ text, want string }{
		"a minimum above the maximum":   {replace(good, "minimum: 0", "minimum: 1"), "minimum is more than maximum"},
		"fewer than none":               {replace(good, "minimum: 0", "minimum: -1"), "spec.minimum"},
		"a thousand million":            {replace(good, "maximum: 0", "maximum: 1000000000"), "spec.maximum"},
		"no zones":                      {replace(good, "[{name: a}, {name: b}]", "[]"), "spec.template.zones"},
		"a zone twice":                  {replace(good, "{name: b}", "{name: a}"), "duplicate entries"},
		"a cloud that nobody knows":     {replace(good, "name: Simulated", "name: Cumulus"), "spec.provider.name"},
		"a simulated machine elsewhere": {replace(tencent, "image: img-1", "image: img-1, simulated: {cpu: 1, memory: 1Gi}"), "template.simulated is for"},
		"no account":                    {replace(tencent, ", credentialsSecret: {name: s}", ""), "TencentCloud needs"},
		"no subnet":                     {replace(tencent, ", subnet: s", ""), "a subnet in each zone"},
		"a password":                    {replace(tencent, "image: img-1", "image: img-1, password: secret"), "field not declared in schema"},
		"a key in the open":             {replace(tencent, "region: r", "region: r, secretKey: secret"), "field not declared in schema"},
		"a name that is no host's":      {replace(good, "name: asked", "name: a.b"), "the name begins the host names"},
		"a login twice":                 {replace(tencent, "image: img-1", "image: img-1, keyPairs: [k], keepImageLogin: true"), "keyPairs and keepImageLogin exclude each other"},
		"no login at all":               {replace(tencent, "image: img-1", "image: img-1, keepImageLogin: false"), "the cloud would make up a password"},
		"a public address for nothing":  {replace(tencent, "image: img-1", "image: img-1, internet: {chargeType: Traffic}"), "internet.bandwidthMbps"},
		"a package that is none":        {replace(tencent, "image: img-1", "image: img-1, internet: {chargeType: BandwidthPackage, bandwidthMbps: 5}"), "bandwidthPackage is for"},
		"a package that is not used":    {replace(tencent, "image: img-1", "image: img-1, internet: {chargeType: Traffic, bandwidthMbps: 5, bandwidthPackage: p}"), "bandwidthPackage is for"},
		"an account for a machine":      {replace(tencent, "image: img-1", "image: img-1, userData: {name: s, key: secretKey}"), "no machine is given"},
		"no time to join":               {replace(good, "drainSeconds: 8", "joinSeconds: 1"), "spec.joinSeconds"},
		"a price that is none":          {replace(tencent, "image: img-1", "image: img-1, maxPrice: much"), "maxPrice"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := e.apply(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
	e.must(tencent)
	if err := e.apply(replace(tencent, "region: r", "region: other")); err == nil || !strings.Contains(err.Error(), "cannot change") {
		t.Errorf("another region: got %v", err)
	}
	if err := e.apply(replace(tencent, "pool: p", "pool: q")); err == nil || !strings.Contains(err.Error(), "make another SpotPool") {
		t.Errorf("another pool: got %v", err)
	}
	e.eventually("the account that is missing to be told", func(context.Context) (bool, error) {
		condition := meta.FindStatusCondition(e.status().Conditions, names.ConditionCloudAnswers)
		return condition != nil && strings.Contains(condition.Message, "there is no Secret g8s-spot/s"), nil
	})
	e.kubectl("delete", "spotpool", "asked", "--wait=false")
	e.must(`{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: g8s-spot}, stringData: {secretId: ` + canaryID + `, secretKey: ` + canaryKey + `}}`)
	// It was never anything but asked of; the region is not one that the service has.
	e.kubectl("patch", "spotpool", "asked", "--type=merge", "-p", `{"metadata":{"finalizers":[]}}`)
}

// TestTheExampleWorks applies what docs/spot.md says.
func TestTheExampleWorks(t *testing.T) {
	bounds.SkipInShort(t)
	t.Parallel()
	text, err := os.ReadFile("../../../examples/spot/simulated.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e := newEnv(t, "spot-train")
	e.must(string(text))
	e.joined(2)
	e.gone()
	for _, file := range []string{"tencent-cloud.yaml", "from-spotpool.yaml"} {
		if _, err := cluster.RunKubectl(t.Context(), "apply", "--server-side", "--dry-run=server", "-f", "../../../examples/spot/"+file); err != nil {
			t.Errorf("%v for %s", err, file)
		}
	}
}
