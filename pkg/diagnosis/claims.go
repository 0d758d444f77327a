package diagnosis

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// selectedNode is the annotation in which the scheduler records the node for which a volume must be created.
const selectedNode = "volume.kubernetes.io/selected-node"

// missingClaim is the remedy for a claim that does not exist.
func missingClaim(name string) []Step {
	return foundSteps(reason.ClaimMissing.FoundWith(name), "")
}

// checkVolumeClaims returns findings for the pod's claims that have no volume, or one out of reach, in their current state. being is true if the scheduler has
// chosen a node and waits for the volume to be created there.
func (s *search) checkVolumeClaims() (out []Finding, being bool) {
	if !s.facts.Space.HasPart(snapshot.PartClaims) {
		return nil, false
	}
	for _, volume := range s.request.Pod.Spec.Volumes {
		if volume.PersistentVolumeClaim == nil {
			continue
		}
		name := volume.PersistentVolumeClaim.ClaimName
		at := slices.IndexFunc(s.facts.Space.Claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == name })
		if at < 0 {
			out = append(out, Finding{Cause: reason.VolumeMissing, Message: phrase.Textf("the namespace has no PersistentVolumeClaim %s", name), Steps: missingClaim(name)})
			continue
		}
		claim := &s.facts.Space.Claims[at]
		finding, ok := s.checkVolumeClaim(claim)
		if ok {
			out = append(out, finding)
			being = being || claim.Annotations[selectedNode] != ""
		}
	}
	return out, being
}

// checkVolumeClaim checks one claim.
func (s *search) checkVolumeClaim(claim *corev1.PersistentVolumeClaim) (Finding, bool) {
	switch {
	case claim.DeletionTimestamp != nil:
		return Finding{Cause: reason.VolumeMissing, Message: phrase.Textf("the PersistentVolumeClaim %s is being deleted", claim.Name),
			Steps: missingClaim(claim.Name)[1:]}, true
	case claim.Status.Phase == corev1.ClaimLost:
		return Finding{Cause: reason.VolumeMissing, Message: phrase.Textf("the volume %s of the PersistentVolumeClaim %s is gone", claim.Spec.VolumeName, claim.Name),
			Steps: []Step{{Action: reason.CreateObject, Kind: reason.KindClaim, Name: claim.Name, Message: phrase.Textf("create the claim %s again", claim.Name)}}}, true
	case claim.Spec.VolumeName == "" && claim.Annotations[selectedNode] != "":
		return Finding{Cause: reason.VolumeUnbound, Message: phrase.Textf("the scheduler has chosen node %s, and waits for the volume of claim %s to be made there%s",
			claim.Annotations[selectedNode], claim.Name, storageClassText(claim)),
			Steps: []Step{waitStep("wait some minutes: the provisioner makes the volume"),
				inspectStep(phrase.Textf("if it lasts, see why"), "kubectl describe pvc "+claim.Name+" -n "+claim.Namespace)}}, true
	case claim.Spec.VolumeName == "" && s.verdictContainsAny("unbound immediate PersistentVolumeClaims", "didn't find available persistent volumes"):
		return explainUnboundClaim(claim), true
	case claim.Spec.VolumeName != "":
		return s.explainVolumeReach(claim)
	}
	return Finding{}, false
}

// verdictContainsAny reports whether the scheduler's verdict on the pod contains one of kube-scheduler's texts.
func (s *search) verdictContainsAny(texts ...string) bool {
	verdict := podVerdict(s.request.Pod)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(verdict, text) })
}

func explainUnboundClaim(claim *corev1.PersistentVolumeClaim) Finding {
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	describe := "kubectl describe pvc " + claim.Name + " -n " + claim.Namespace
	return Finding{
		Cause: reason.VolumeUnbound, Message: phrase.Textf("claim %s is not bound: no volume of %s%s is there for it", claim.Name, &size, storageClassText(claim)),
		Steps: []Step{
			{Action: reason.CreateObject, Kind: "PersistentVolume", Name: claim.Name, Field: className(claim), Value: size.String(),
				Message: phrase.Textf("ask the administrators for a volume of at least %s%s, or for a provisioner that makes it; see %s", &size, storageClassText(claim), describe)},
			{Action: reason.SetField, Field: reason.FieldWorkdirs, Message: phrase.Textf("use another claim, in pvc of storage.workdirs")},
		},
	}
}

func className(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

func storageClassText(claim *corev1.PersistentVolumeClaim) phrase.Text {
	if class := className(claim); class != "" {
		return phrase.Textf(" of storage class %s", class)
	}
	return phrase.Textf(" without a storage class")
}

// explainVolumeReach reports that none of the pod's nodes reaches the claim's volume, and names the pools that do.
func (s *search) explainVolumeReach(claim *corev1.PersistentVolumeClaim) (Finding, bool) {
	within := s.facts.volumeNodes(claim.Spec.VolumeName)
	if within == nil {
		return Finding{}, false
	}
	reach, err := nodeaffinity.NewNodeSelector(within)
	if err != nil {
		return Finding{}, false
	}
	var pools []string
	near, far := 0, 0
	for i := range s.facts.Cluster.Nodes {
		node := &s.facts.Cluster.Nodes[i]
		switch in, reached := s.request.InScope(node), reach.Match(node); {
		case in && reached:
			near++
		case in:
			far++
		case reached && s.neverBlocked(node):
			pools = append(pools, gpu.PoolOf(node))
		}
	}
	if near > 0 || far == 0 {
		return Finding{}, false
	}
	slices.Sort(pools)
	pools = slices.Compact(pools)
	out := Finding{Cause: reason.VolumeElsewhere, Nodes: far, Message: phrase.Textf("claim %s is bound to volume %s, which only nodes with %s reach, and %s has none of them",
		claim.Name, claim.Spec.VolumeName, selectorText(within), s.poolText())}
	if len(pools) > 0 {
		out.Steps = append(out.Steps, s.moveToPoolStep(pools[0], phrase.Textf("use a pool there: %s.", shortList(pools))))
	}
	out.Steps = append(out.Steps, Step{Action: reason.SetField, Field: reason.FieldWorkdirs, Message: phrase.Textf("use another claim, whose volume the pool reaches, in pvc of storage.workdirs")})
	return out, true
}

// volumeNodes returns the nodes that can use a volume, nil for all of them.
func (f *Facts) volumeNodes(volume string) *corev1.NodeSelector {
	at := slices.IndexFunc(f.Space.Volumes, func(v corev1.PersistentVolume) bool { return v.Name == volume })
	if at < 0 || f.Space.Volumes[at].Spec.NodeAffinity == nil {
		return nil
	}
	return f.Space.Volumes[at].Spec.NodeAffinity.Required
}

// selectorText describes the nodes that can use a volume.
func selectorText(selector *corev1.NodeSelector) phrase.Text {
	var terms []phrase.Text
	for _, term := range selector.NodeSelectorTerms {
		var all []string
		for _, e := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			switch e.Operator {
			case corev1.NodeSelectorOpIn:
				all = append(all, e.Key+"="+strings.Join(e.Values, "|"))
			default:
				all = append(all, strings.TrimSpace(e.Key+" "+string(e.Operator)+" "+strings.Join(e.Values, "|")))
			}
		}
		terms = append(terms, phrase.Quote(joinList(all)))
	}
	return phrase.Join(terms, phrase.Textf(" or "))
}
