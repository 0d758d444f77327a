package diagnosis

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// claimDevices reports whether pods have ResourceClaims.
func claimDevices(pods []corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return len(pod.Spec.ResourceClaims) > 0 })
}

// checkDeviceClaims returns findings for the pod's device claims that do not exist yet, and for those that no node can serve, in the current state of the
// cluster.
func (s *search) checkDeviceClaims() []Finding {
	space := s.facts.Space
	if !space.HasPart(snapshot.PartDeviceClaims) {
		return nil
	}
	var out []Finding
	for i := range s.request.Pod.Spec.ResourceClaims {
		if finding, ok := s.checkDeviceClaim(&s.request.Pod.Spec.ResourceClaims[i]); ok {
			out = append(out, finding)
		}
	}
	return out
}

// checkDeviceClaim checks one claim.
func (s *search) checkDeviceClaim(of *corev1.PodResourceClaim) (Finding, bool) {
	space := s.facts.Space
	name, made := claimName(s.request.Pod, of)
	if !made {
		return s.checkClaimTemplate(of)
	}
	if name == "" { // the template makes none
		return Finding{}, false
	}
	at := slices.IndexFunc(space.DeviceClaims, func(c resourcev1.ResourceClaim) bool { return c.Name == name })
	switch {
	case at < 0:
		return Finding{Cause: reason.DeviceClaimMissing, Message: phrase.Textf("the namespace has no ResourceClaim %s", name),
			Steps: []Step{{Action: reason.CreateObject, Kind: "ResourceClaim", Name: name, Message: phrase.Textf("create the ResourceClaim %s, or correct its name", name)}}}, true
	case space.DeviceClaims[at].DeletionTimestamp != nil:
		return Finding{Cause: reason.DeviceClaimMissing, Message: phrase.Textf("the ResourceClaim %s is being deleted", name),
			Steps: []Step{{Action: reason.CreateObject, Kind: "ResourceClaim", Name: name, Message: phrase.Textf("create it again when it is gone")}}}, true
	case space.DeviceClaims[at].Status.Allocation != nil:
		return Finding{}, false
	}
	return s.explainUnservedClaim(name, &space.DeviceClaims[at].Spec)
}

// claimName returns the claim for a pod's entry. made is true if the claim has been created; the name is "" if none is needed.
func claimName(pod *corev1.Pod, of *corev1.PodResourceClaim) (name string, made bool) {
	if of.ResourceClaimName != nil {
		return *of.ResourceClaimName, true
	}
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.Name != of.Name {
			continue
		}
		if status.ResourceClaimName == nil {
			return "", true
		}
		return *status.ResourceClaimName, true
	}
	return "", false
}

// checkClaimTemplate explains a claim that is still to be created from a template.
func (s *search) checkClaimTemplate(of *corev1.PodResourceClaim) (Finding, bool) {
	if of.ResourceClaimTemplateName == nil {
		return Finding{}, false
	}
	template := *of.ResourceClaimTemplateName
	at := slices.IndexFunc(s.facts.Space.DeviceClaimTemplates, func(t resourcev1.ResourceClaimTemplate) bool { return t.Name == template })
	if at < 0 {
		return Finding{Cause: reason.DeviceClaimMissing, Message: phrase.Textf("the namespace has no ResourceClaimTemplate %s, of which the claim %s is to be made", template, of.Name),
			Steps: []Step{{Action: reason.CreateObject, Kind: "ResourceClaimTemplate", Name: template, Message: phrase.Textf("create the ResourceClaimTemplate %s, or correct its name", template)}}}, true
	}
	if finding, never := s.explainUnservedClaim(template, &s.facts.Space.DeviceClaimTemplates[at].Spec.Spec); never {
		return finding, true
	}
	events := "kubectl describe pod " + s.request.Pod.Name + " -n " + s.request.Pod.Namespace
	return Finding{Cause: reason.DeviceClaimMissing, Message: phrase.Textf("the claim %s of the pod has not been made of ResourceClaimTemplate %s yet, and the scheduler does not look at the pod before", of.Name, template),
		Steps: []Step{
			waitStep("wait some seconds: kube-controller-manager makes it"),
			{Action: reason.StartControllers, Command: events, Message: phrase.Textf("if it lasts, see what refuses it: %s; or ask the administrators whether kube-controller-manager runs its resourceclaim-controller", events)},
		}}, true
}

// explainUnservedClaim reports that no node has the devices that a claim asks for, even when all are free. It returns false if a node may have them: the count of
// devices that match the selectors is never too low.
func (s *search) explainUnservedClaim(name string, spec *resourcev1.ResourceClaimSpec) (Finding, bool) {
	if !s.facts.Space.HasPart(snapshot.PartDevices) {
		return Finding{}, false
	}
	for i := range spec.Devices.Requests {
		request := &spec.Devices.Requests[i]
		asked := requestAlternatives(request)
		if len(asked) == 0 {
			continue
		}
		verdicts := make([]*Finding, len(asked))
		for j := range asked {
			verdicts[j] = s.explainUnservedRequest(name, &asked[j])
		}
		if !slices.Contains(verdicts, nil) {
			return *verdicts[len(verdicts)-1], true // the last alternative requires the least
		}
	}
	return Finding{}, false
}

// deviceDemand is what one request of a claim asks for.
type deviceDemand struct {
	class     string
	count     int64
	selectors []resourcev1.DeviceSelector
}

// requestAlternatives returns the alternatives of a request.
func requestAlternatives(request *resourcev1.DeviceRequest) []deviceDemand {
	if exactly := request.Exactly; exactly != nil {
		return []deviceDemand{{exactly.DeviceClassName, minDeviceCount(exactly.AllocationMode, exactly.Count), exactly.Selectors}}
	}
	var out []deviceDemand
	for i := range request.FirstAvailable {
		sub := &request.FirstAvailable[i]
		out = append(out, deviceDemand{sub.DeviceClassName, minDeviceCount(sub.AllocationMode, sub.Count), sub.Selectors})
	}
	return out
}

// minDeviceCount is how many devices a request needs.
func minDeviceCount(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	if mode == resourcev1.DeviceAllocationModeAll {
		return 1
	}
	return max(1, count)
}

// explainUnservedRequest explains why no node serves one alternative of a request, nil if one may.
func (s *search) explainUnservedRequest(name string, asked *deviceDemand) *Finding {
	space := s.facts.Space
	at := slices.IndexFunc(space.DeviceClasses, func(c resourcev1.DeviceClass) bool { return c.Name == asked.class })
	if at < 0 {
		return &Finding{Cause: reason.DeviceClaim, Never: true, Message: phrase.Textf("the ResourceClaim %s asks for DeviceClass %s, which does not exist", name, asked.class),
			Steps: []Step{{Action: reason.Resubmit, Field: "spec.devices.requests", Message: phrase.Textf("name a DeviceClass that is there (kubectl get deviceclasses), or ask the administrators to install the driver that brings it")}}}
	}
	node, most := s.maxDevices(slices.Concat(space.DeviceClasses[at].Spec.Selectors, asked.selectors))
	switch {
	case most >= asked.count:
		return nil
	case most == 0:
		return &Finding{Cause: reason.DeviceClaim, Never: true, Message: phrase.Textf("the ResourceClaim %s asks for devices of class %s, and no node has one", name, asked.class),
			Steps: []Step{{Action: reason.Resubmit, Field: "spec.devices.requests", Message: phrase.Textf("ask for devices that there are: kubectl get resourceslices shows them")}}}
	}
	says := phrase.Textf("the ResourceClaim %s asks for %d devices of class %s, and %s, which has most, has %d", name, asked.count, asked.class, node, most)
	if node == "" {
		says = phrase.Textf("the ResourceClaim %s asks for %d devices of class %s, and there are %d", name, asked.count, asked.class, most)
	}
	return &Finding{Cause: reason.DeviceClaim, Never: true, Message: says,
		Steps: []Step{{Action: reason.Resubmit, Field: "spec.devices.requests", Message: phrase.Textf("ask for %d devices at most: a claim is served by one node", most)}}}
}

// maxDevices returns the node with the most devices that match the selectors, whether or not they are in use. Devices that every node reaches count
// for each node.
func (s *search) maxDevices(selectors []resourcev1.DeviceSelector) (string, int64) {
	newest := map[string]int64{}
	slice := s.facts.Space.ResourceSlices
	pool := func(i int) string { return slice[i].Spec.Driver + "/" + slice[i].Spec.Pool.Name }
	for i := range slice {
		newest[pool(i)] = max(newest[pool(i)], slice[i].Spec.Pool.Generation)
	}
	on, everywhere := map[string]int64{}, int64(0)
	for i := range slice {
		if slice[i].Spec.Pool.Generation < newest[pool(i)] {
			continue
		}
		count := int64(0)
		for j := range slice[i].Spec.Devices {
			if maySelectDevice(selectors, slice[i].Spec.Driver, &slice[i].Spec.Devices[j]) {
				count++
			}
		}
		if slice[i].Spec.NodeName == nil {
			everywhere += count
			continue
		}
		on[*slice[i].Spec.NodeName] += count
	}
	names := slices.SortedFunc(maps.Keys(on), func(a, b string) int { return cmp.Or(-cmp.Compare(on[a], on[b]), cmp.Compare(a, b)) })
	if len(names) == 0 {
		return "", everywhere
	}
	return names[0], on[names[0]] + everywhere
}

// The usual forms of selectors. Any other form counts as a match.
var (
	driverIs    = regexp.MustCompile(`^device\.driver\s*==\s*["']([^"']*)["']$`)
	attributeIs = regexp.MustCompile(`^device\.attributes\[["']([^"']*)["']\]\.([A-Za-z0-9_]+)\s*==\s*["']([^"']*)["']$`)
)

// maySelectDevice reports whether selectors may match a device: false only if they certainly do not.
func maySelectDevice(selectors []resourcev1.DeviceSelector, driver string, device *resourcev1.Device) bool {
	for _, selector := range selectors {
		if selector.CEL == nil || strings.ContainsAny(selector.CEL.Expression, "|?") {
			continue
		}
		for term := range strings.SplitSeq(selector.CEL.Expression, "&&") {
			term = strings.TrimSpace(term)
			if is := driverIs.FindStringSubmatch(term); is != nil && is[1] != driver {
				return false
			}
			if is := attributeIs.FindStringSubmatch(term); is != nil && !hasAttribute(device, driver, is[1], is[2], is[3]) {
				return false
			}
		}
	}
	return true
}

// hasAttribute reports whether a device has an attribute of a domain, which is its driver's where the name has none.
func hasAttribute(device *resourcev1.Device, driver, domain, name, value string) bool {
	attribute, ok := device.Attributes[resourcev1.QualifiedName(domain+"/"+name)]
	if !ok && domain == driver {
		attribute, ok = device.Attributes[resourcev1.QualifiedName(name)]
	}
	return ok && attribute.StringValue != nil && *attribute.StringValue == value
}
