package diagnosis

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

const cannotAllocate = "0/2 nodes are available: 2 cannot allocate all claims."

func exactly(class string, count int64) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, Count: count, AllocationMode: resourcev1.DeviceAllocationModeExactCount}}
}

func allOf(class string) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeAll}}
}

func firstOf(subs ...resourcev1.DeviceSubRequest) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: "r", FirstAvailable: subs}
}

func sub(class string, count int64) resourcev1.DeviceSubRequest {
	return resourcev1.DeviceSubRequest{Name: class, DeviceClassName: class, Count: count, AllocationMode: resourcev1.DeviceAllocationModeExactCount}
}

func claimOf(requests ...resourcev1.DeviceRequest) resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}}
}

// slice is what a driver offers on a node, some devices of a type; on "" every node reaches them.
func slice(driver, node, kind string, count int, generation int64) resourcev1.ResourceSlice {
	out := resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: driver, Pool: resourcev1.ResourcePool{Name: node, Generation: generation}}}
	if node != "" {
		out.Spec.NodeName = &node
	}
	for range count {
		out.Spec.Devices = append(out.Spec.Devices, resourcev1.Device{Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": {StringValue: &kind}}})
	}
	return out
}

func class(name, expression string) resourcev1.DeviceClass {
	return resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}}}
}

// onDevices is a cluster with devices for claims: a node of 8 GPUs, one of 2, and network cards beside.
func onDevices() *snapshot.Snapshot {
	return &snapshot.Snapshot{
		DeviceClasses: []resourcev1.DeviceClass{class("gpu", `device.driver == "gpu.example.com"`), class("nic", `device.driver == 'nic.example.com'`),
			class("mig", `device.driver == 'gpu.example.com' && device.attributes['gpu.example.com'].type == 'mig'`),
			class("whole", `device.driver == 'gpu.example.com' && device.attributes["gpu.example.com"].type == "gpu"`),
			class("any", `device.driver == 'x' || true`), class("not", `!(device.driver == 'gpu.example.com')`), class("net", `device.driver == 'net'`)},
		ResourceSlices: []resourcev1.ResourceSlice{slice("gpu.example.com", "n1", "gpu", 8, 2), slice("gpu.example.com", "n1", "gpu", 64, 1),
			slice("gpu.example.com", "n2", "gpu", 2, 1), slice("nic.example.com", "n1", "nic", 16, 1), slice("net", "", "nic", 4, 1)},
	}
}

// TestWhatIsSaidOfDeviceClaims: whether waiting helps, and what is to be made first.
func TestWhatIsSaidOfDeviceClaims(t *testing.T) {
	named := corev1.PodResourceClaim{Name: "gpus", ResourceClaimName: ptr.To("mine")}
	fromTemplate := corev1.PodResourceClaim{Name: "gpus", ResourceClaimTemplateName: ptr.To("template")}
	claim := func(spec resourcev1.ResourceClaimSpec, changes ...func(*resourcev1.ResourceClaim)) func(*Facts) {
		return func(f *Facts) {
			c := resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: spec}
			for _, change := range changes {
				change(&c)
			}
			f.Space.DeviceClaims = []resourcev1.ResourceClaim{c}
		}
	}
	template := func(spec resourcev1.ResourceClaimSpec) func(*Facts) {
		return func(f *Facts) {
			f.Space.DeviceClaimTemplates = []resourcev1.ResourceClaimTemplate{{ObjectMeta: metav1.ObjectMeta{Name: "template"}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: spec}}}
		}
	}
	const notFree, most = "are not free", "asks for 9 devices of class gpu, and n1, which has most, has 8"
	tests := map[string]struct {
		of      corev1.PodResourceClaim
		verdict string
		change  func(*Facts)
		cause   reason.Cause
		says    string
		advice  string
	}{
		"more than any node has":          {named, cannotAllocate, claim(claimOf(exactly("gpu", 9))), reason.DeviceClaim, most, "ask for 8 devices at most"},
		"as many as a node has":           {named, cannotAllocate, claim(claimOf(exactly("gpu", 8))), reason.DeviceClaim, notFree, "wait, or ask for fewer devices"},
		"as many of a type as a node has": {named, cannotAllocate, claim(claimOf(exactly("whole", 8))), reason.DeviceClaim, notFree, "wait"},
		"all that a node has":             {named, cannotAllocate, claim(claimOf(allOf("gpu"))), reason.DeviceClaim, notFree, "wait"},
		"a kind that no node has":         {named, cannotAllocate, claim(claimOf(exactly("mig", 1))), reason.DeviceClaim, "of class mig, and no node has one", "kubectl get resourceslices"},
		"a class that is not there":       {named, cannotAllocate, claim(claimOf(exactly("h100", 1))), reason.DeviceClaim, "asks for DeviceClass h100, which does not exist", "kubectl get deviceclasses"},
		"more than every node reaches":    {named, cannotAllocate, claim(claimOf(exactly("net", 5))), reason.DeviceClaim, "has 4", "4 devices at most"},
		"a selector of two ways":          {named, cannotAllocate, claim(claimOf(exactly("any", 16))), reason.DeviceClaim, notFree, "wait"},
		"a selector that denies":          {named, cannotAllocate, claim(claimOf(exactly("not", 16))), reason.DeviceClaim, notFree, "wait"},
		"neither of two ways":             {named, cannotAllocate, claim(claimOf(firstOf(sub("gpu", 16), sub("gpu", 9)))), reason.DeviceClaim, most, "8 devices at most"},
		"the second of two ways":          {named, cannotAllocate, claim(claimOf(firstOf(sub("gpu", 9), sub("gpu", 2)))), reason.DeviceClaim, notFree, "wait"},
		"the second of two requests":      {named, cannotAllocate, claim(claimOf(exactly("nic", 1), exactly("gpu", 9))), reason.DeviceClaim, most, "8 devices at most"},
		"before the scheduler looked":     {named, "", claim(claimOf(exactly("gpu", 9))), reason.DeviceClaim, most, "8 devices at most"},
		"no claim of that name":           {named, "", nil, reason.DeviceClaimMissing, "has no ResourceClaim mine", "create the ResourceClaim mine"},
		"a claim that is being deleted": {named, "", claim(claimOf(exactly("gpu", 1)), func(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{Time: noon} }),
			reason.DeviceClaimMissing, "mine is being deleted", "when it is gone"},
		"a claim that is not made yet": {fromTemplate, "", template(claimOf(exactly("gpu", 1))), reason.DeviceClaimMissing,
			"has not been made of ResourceClaimTemplate template yet", "runs its resourceclaim-controller"},
		"a template that is not there":   {fromTemplate, "", nil, reason.DeviceClaimMissing, "has no ResourceClaimTemplate template", "create the ResourceClaimTemplate template"},
		"a template that no node serves": {fromTemplate, "", template(claimOf(exactly("gpu", 9))), reason.DeviceClaim, "asks for 9 devices", "8 devices at most"},
		"devices that may not be read": {named, cannotAllocate, func(f *Facts) {
			claim(claimOf(exactly("gpu", 9)))(f)
			f.Space.MarkUnread(snapshot.PartDevices)
		}, reason.DeviceClaim, notFree, "wait"},
		"claims that may not be read": {named, cannotAllocate, func(f *Facts) { f.Space.MarkUnread(snapshot.PartDeviceClaims) }, reason.DeviceClaim, notFree, "wait"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := refused(fixture.Pod("p").GPUs(0), test.verdict)
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{test.of}
			if test.verdict == "" {
				pod.Status.Conditions = nil // the scheduler has not looked at it
			}
			facts := factsOf(pod, node("n1", "", 0), node("n2", "", 0))
			facts.Cluster.MarkUnread(snapshot.PartLease)
			facts.Space = onDevices()
			if test.change != nil {
				test.change(&facts)
			}
			report := Diagnose(facts)
			first := report.Findings[0]
			if first.Cause != test.cause || !strings.Contains(first.Text, test.says) {
				t.Fatalf("got %s: %s, want %s with %q", first.Cause, first.Text, test.cause, test.says)
			}
			if advice := strings.Join(first.Advice, "; "); !strings.Contains(advice, test.advice) {
				t.Errorf("got advice %q, want %q", advice, test.advice)
			}
			for _, finding := range report.Findings {
				if first.Never && strings.Contains(strings.Join(finding.Advice, " "), "wait") {
					t.Errorf("%s advises %v, and waiting never helps", finding.Text, finding.Advice)
				}
			}
		})
	}
}

// TestAClaimThatIsServed says nothing.
func TestAClaimThatIsServed(t *testing.T) {
	pod := refused(fixture.Pod("p").GPUs(0), "")
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "a", ResourceClaimTemplateName: ptr.To("t")}, {Name: "b", ResourceClaimTemplateName: ptr.To("t")}}
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "a", ResourceClaimName: ptr.To("made")}, {Name: "b"}}
	facts := factsOf(pod, node("n1", "", 0))
	facts.Space = onDevices()
	facts.Space.DeviceClaims = []resourcev1.ResourceClaim{{ObjectMeta: metav1.ObjectMeta{Name: "made"}, Spec: claimOf(exactly("gpu", 9)),
		Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{}}}}
	for _, finding := range Diagnose(facts).Findings {
		if finding.Cause == reason.DeviceClaim || finding.Cause == reason.DeviceClaimMissing {
			t.Errorf("it is said that %s", finding.Text)
		}
	}
}
