package agent

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/agent/kubelet"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpu/fault"
)

// oldestKubelet is the first version that always passes CDI devices of device plugins on to the runtime.
var oldestKubelet = version.MustParseGeneric("1.31.0")

// heartbeat is the interval at which unchanged conditions are written, so that gpu-controller knows that an agent is still running: kubelet's are
// written as often.
const heartbeat = 5 * time.Minute

// rejectionHold is how long a node whose agent only reports stays closed after kubelet rejected a pod for its GPUs. The agent cannot tell whether the
// other plugin serves again, but kubelet can: by then it has written its status twice (nodeStatusUpdateFrequency, 10 s), and offers no GPUs without a
// plugin.
const rejectionHold = 20 * time.Second

// unfitKubelet returns why a node's kubelet cannot give containers their assigned GPUs, "" if it can.
func unfitKubelet(node *corev1.Node) string {
	text := node.Status.NodeInfo.KubeletVersion
	if have, err := version.ParseGeneric(text); err != nil || have.AtLeast(oldestKubelet) {
		return ""
	}
	return fmt.Sprintf("kubelet %s does not pass CDI devices of device plugins on: want 1.31 or later", text)
}

// changes are the updates that bring a node up to date.
type changes struct {
	// labels and annotations to set.
	labels, annotations map[string]string
	// conditions that differ from the node's.
	conditions []corev1.NodeCondition
	// urgent changes affect what may be allocated. Others can wait.
	urgent bool
}

func (c *changes) isEmpty() bool { return len(c.labels)+len(c.annotations)+len(c.conditions) == 0 }

// computeChanges compares a node with its GPUs and with the records of their holders. ready is whether the agent allocates them.
func computeChanges(node *corev1.Node, view *View, records []binding.Record, ready corev1.NodeCondition, now metav1.Time) (changes, error) {
	c := changes{labels: missingLabels(node, view), annotations: map[string]string{}}
	if err := c.addSlices(node, view.Slices(records), now.Time); err != nil {
		return changes{}, err
	}
	inventory, before := view.Inventory(), node.Annotations[names.AnnotationInventory]
	old, unreadable := gpu.ParseInventory(before)
	setFaultTimes(&inventory, &old, now.Time)
	text, err := inventory.Encode()
	if err != nil {
		return changes{}, err
	}
	// A node that never had a GPU has nothing to report. One that has lost them all does.
	if before != text && (before != "" || len(view.Fleet.GPUs) > 0) {
		c.annotations[names.AnnotationInventory] = text
		c.urgent = unreadable != nil || givesOthers(&old, &inventory)
	}
	c.addConditions(node, []corev1.NodeCondition{ready, healthCondition(view)}, now)
	return c, nil
}

// addConditions adds conditions that differ from the node's, or all of them if the agent has not written for a while.
func (c *changes) addConditions(node *corev1.Node, conditions []corev1.NodeCondition, now metav1.Time) {
	for i := range conditions {
		is := &conditions[i]
		is.LastHeartbeatTime, is.LastTransitionTime = now, now
		before := condition.OfNode(node, is.Type)
		if before != nil && before.Status == is.Status {
			is.LastTransitionTime = before.LastTransitionTime
			if before.Reason == is.Reason && before.Message == is.Message {
				continue
			}
		}
		c.conditions, c.urgent = append(c.conditions, *is), true
	}
	if heard := condition.OfNode(node, names.ConditionAgentReady); len(c.conditions) == 0 && heard != nil {
		if since := now.Sub(heard.LastHeartbeatTime.Time); since >= heartbeat || since < 0 {
			c.conditions = conditions
		}
	}
}

// addSlices adds the MIG slices and their holders. It adds nothing on a node that never had any.
func (c *changes) addSlices(node *corev1.Node, all []gpu.Slice, now time.Time) error {
	before, told := node.Annotations[names.AnnotationSlices]
	if len(all) == 0 && !told {
		return nil
	}
	old := gpu.SlicesOf(node)
	for i := range all {
		if slice := &all[i]; slice.Health != gpu.Healthy {
			slice.Since = now.UTC().Truncate(time.Second)
			at := slices.IndexFunc(old, func(o gpu.Slice) bool {
				return o.ParentUUID == slice.ParentUUID && o.Health == slice.Health && !o.Since.IsZero()
			})
			if at >= 0 {
				slice.Since = old[at].Since
			}
		}
	}
	text, err := gpu.EncodeSlices(all)
	if err == nil && text != before {
		c.annotations[names.AnnotationSlices] = text
	}
	return err
}

// setFaultTimes sets since when GPUs are unhealthy. It keeps the earlier time of those that already were, so the time outlives the agent.
func setFaultTimes(inventory, before *gpu.Inventory, now time.Time) {
	old := allGPUs(before)
	for _, card := range allGPUs(inventory) {
		if card.Health == gpu.Healthy {
			continue
		}
		card.Since = now.UTC().Truncate(time.Second)
		for _, was := range old {
			if was.UUID == card.UUID && was.Health == card.Health && !was.Since.IsZero() {
				card.Since = was.Since
			}
		}
	}
}

// allGPUs returns all GPUs of an inventory, those in MIG mode with them.
func allGPUs(inventory *gpu.Inventory) []*gpu.GPU {
	var all []*gpu.GPU
	for i := range inventory.GPUs {
		all = append(all, &inventory.GPUs[i])
	}
	for i := range inventory.Sliced {
		all = append(all, &inventory.Sliced[i].GPU)
	}
	return all
}

// givesOthers reports whether an inventory has other GPUs or MIG slices than the previous one.
func givesOthers(old, now *gpu.Inventory) bool {
	same := func(a, b *gpu.GPU) bool { return a.UUID == b.UUID && a.Health == b.Health }
	return !slices.EqualFunc(old.GPUs, now.GPUs, func(a, b gpu.GPU) bool { return same(&a, &b) }) ||
		!slices.EqualFunc(old.Sliced, now.Sliced, func(a, b gpu.SlicedGPU) bool { return same(&a.GPU, &b.GPU) && slices.Equal(a.Slices, b.Slices) })
}

// readyCondition is the condition of a node whose agent allocates GPUs. alignment is kubelet's Topology Manager policy, "" if unknown.
func readyCondition(unfit Unfitness, alignment string) corev1.NodeCondition {
	if !unfit.IsZero() {
		return corev1.NodeCondition{Type: names.ConditionAgentReady, Status: corev1.ConditionFalse, Reason: unfit.Reason, Message: unfit.Text}
	}
	ready := corev1.NodeCondition{Type: names.ConditionAgentReady, Status: corev1.ConditionTrue, Reason: names.ReasonServing,
		Message: "containers get the cards that the scheduler chooses"}
	if alignment != "" && alignment != kubelet.AlignNothing {
		ready.Message += "; kubelet's Topology Manager (policy " + alignment + ") does not align CPUs and memory with them"
	}
	return ready
}

// reportingCondition is the condition of a node whose agent allocates none.
func reportingCondition() corev1.NodeCondition {
	return corev1.NodeCondition{Type: names.ConditionAgentReady, Status: corev1.ConditionTrue, Reason: names.ReasonReporting,
		Message: "the agent reports cards and their health alone: another device plugin gives them out, and which ones containers get is not the scheduler's choice"}
}

// findRejection returns the condition by which gpu-controller has closed a node whose kubelet rejects pods for their GPUs, nil if it has not.
func findRejection(node *corev1.Node) *corev1.NodeCondition {
	if ready := condition.OfNode(node, names.ConditionAgentReady); ready != nil && ready.Reason == names.ReasonPodRejected {
		return ready
	}
	return nil
}

// keepRejection returns the condition to write of the agent's own one: an agent that only reports keeps a closed node closed for rejectionHold. One that
// allocates GPUs knows that it serves, and opens the node at once.
func keepRejection(node *corev1.Node, own corev1.NodeCondition, seenFor time.Duration) corev1.NodeCondition {
	if closed := findRejection(node); closed != nil && own.Reason == names.ReasonReporting && seenFor < rejectionHold {
		return *closed
	}
	return own
}

// pausedCondition is the condition of a node whose agent ends because NVIDIA's operator has paused what uses the driver; ok is false where it has not.
func pausedCondition(node *corev1.Node, now metav1.Time) (condition corev1.NodeCondition, ok bool) {
	for _, label := range names.OperatorLabels {
		if value := node.Labels[label]; strings.HasPrefix(value, names.OperatorPauses) {
			return corev1.NodeCondition{
				Type: names.ConditionAgentReady, Status: corev1.ConditionFalse, Reason: names.ReasonPaused, LastHeartbeatTime: now, LastTransitionTime: now,
				Message: "NVIDIA's operator has paused what uses the driver (" + label + "=" + value + "): no container gets cards until it has done its work",
			}, true
		}
	}
	return corev1.NodeCondition{}, false
}

// noAgentConditions are the conditions of a node on which an agent is no longer wanted.
func noAgentConditions(now metav1.Time) []corev1.NodeCondition {
	conditions := []corev1.NodeCondition{
		{Type: names.ConditionAgentReady, Status: corev1.ConditionFalse, Reason: names.ReasonNoAgent,
			Message: "the node is not labelled " + names.LabelAgent + " any more: its cards are given out by somebody else, or by nobody"},
		{Type: names.ConditionGPUsHealthy, Status: corev1.ConditionUnknown, Reason: names.ReasonNoAgent, Message: "no agent looks at the cards"},
	}
	for i := range conditions {
		conditions[i].LastHeartbeatTime, conditions[i].LastTransitionTime = now, now
	}
	return conditions
}

func healthCondition(view *View) corev1.NodeCondition {
	sick, unread := view.SickGPUs(), view.Fleet.Unread
	if len(sick)+len(unread) == 0 {
		return corev1.NodeCondition{Type: names.ConditionGPUsHealthy, Status: corev1.ConditionTrue, Reason: "AllHealthy",
			Message: fmt.Sprintf("all %d cards may be used", len(view.Fleet.GPUs))}
	}
	var told []string
	for i := range sick {
		told = append(told, fmt.Sprintf("card %d (%s): %s", sick[i].Index, sick[i].UUID, view.Health[sick[i].UUID]))
	}
	reason := fault.Lost
	if len(sick) > 0 {
		reason = view.Health[sick[0].UUID]
	}
	return corev1.NodeCondition{Type: names.ConditionGPUsHealthy, Status: corev1.ConditionFalse, Reason: reason,
		Message: strings.Join(append(told, unread...), "; ")}
}

// missingLabels returns the labels about GPUs that the node lacks. It does not change labels that others set.
func missingLabels(node *corev1.Node, view *View) map[string]string {
	labels := map[string]string{}
	if len(view.Fleet.GPUs) == 0 {
		return labels
	}
	first := mostCommonGPU(view.Fleet.GPUs)
	if name := typeName(first); !hasTypeLabel(node) && name != "" {
		labels[names.LabelGPUType] = name
	}
	if memory, err := gpu.LabelledMemory(node); memory == 0 && err == nil && first.MemoryMiB > 0 {
		labels[names.LabelNVIDIAMemory] = strconv.FormatInt(first.MemoryMiB, 10)
	}
	if node.Labels[names.LabelNVIDIACount] == "" && node.Labels[names.LabelCount] == "" {
		labels[names.LabelNVIDIACount] = strconv.Itoa(len(view.Fleet.GPUs))
	}
	if len(view.Fleet.GPUs) > 1 && gpu.InterconnectOf(node) == "" {
		labels[names.LabelInterconnect] = names.InterconnectPCIe
		if len(view.Fleet.Links) > 0 {
			labels[names.LabelInterconnect] = names.InterconnectNVLink
		}
	}
	return labels
}

// hasTypeLabel reports whether an administrator or NVIDIA's discovery has named the type. Clouds' names leave out the memory.
func hasTypeLabel(node *corev1.Node) bool {
	return cmp.Or(node.Labels[names.LabelGPUType], node.Labels[names.LabelNVIDIAProduct]) != "" ||
		!slices.Contains([]string{"", names.NoGPUType}, node.Labels[names.LabelAccelerator])
}

// mostCommonGPU returns a GPU of the most frequent model, the first of equals: other GPUs may only drive a display.
func mostCommonGPU(cards []hardware.GPU) *hardware.GPU {
	count := map[string]int{}
	for i := range cards {
		count[cards[i].Product]++
	}
	best := &cards[0]
	for i := range cards {
		if count[cards[i].Product] > count[best.Product] {
			best = &cards[i]
		}
	}
	return best
}

var (
	modelPattern = regexp.MustCompile(`\b[A-Z]{1,3}[0-9]{1,4}[A-Z]?\b`)
	sizePattern  = regexp.MustCompile(`\b([0-9]{1,3})GB\b`)
	notInLabels  = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)
)

// typeName returns the default name of a type: A100-80G for "NVIDIA A100-SXM4-80GB", else the product's name as a valid label.
func typeName(card *hardware.GPU) string {
	model := modelPattern.FindString(card.Product)
	size := ""
	if found := sizePattern.FindStringSubmatch(card.Product); found != nil {
		size = found[1]
	} else if card.MemoryMiB >= 1<<10 {
		// Rounded up, as the firmware reserves part of the nominal size: an H200 of 141 GB has 143771 MiB.
		size = strconv.FormatInt((card.MemoryMiB+1<<10-1)>>10, 10)
	}
	if model != "" && size != "" {
		return model + "-" + size + "G"
	}
	return productName(card)
}

// productName returns the product as GPU feature discovery writes it, "" if it cannot be a label.
func productName(card *hardware.GPU) string {
	name := strings.Trim(notInLabels.ReplaceAllString(card.Product, "-"), "-_.")
	if len(validation.IsValidLabelValue(name)) > 0 {
		return ""
	}
	return name
}
