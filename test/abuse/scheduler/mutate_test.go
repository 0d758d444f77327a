package scheduler

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// object is one as JSON decodes it.
type object = map[string]any

// mutator makes hostile objects of good ones.
type mutator struct{ *rand.Rand }

// hostileStrings are what stands where something else belongs. An exponent of nine digits is not among them: the API server
// itself computes for a minute before it gives up, which is its own affair; amountsWithoutEnd has what it stores.
var hostileStrings = []string{
	"", " ", "0", "-1", "1e1.5", "1e99999", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1n", "0.5", "1Ei",
	"NaN", "null", "true", "{}", "[]", `{"version":1}`, `{"version":99999999999999999999}`, "../../etc/passwd", "a,b,,c", ",", "\x00", "\x1b]0;x\a",
	"\u202ereversed", "ÄÖÜ", "😀", strings.Repeat("x", 63), strings.Repeat("x", 64), strings.Repeat("9", 300), strings.Repeat("a,", 5000),
	strings.Repeat("[", 20_000), strings.Repeat(`{"a":`, 10_000), strings.Repeat("x", 100_000),
	"gpu-scheduler", "g8s-high", "system-node-critical", "GPU-1", "index-0", "1/1", "a/0", "Healthy", "T4", "T4,H100", "40Gi", "16384Mi",
}

var hostileNumbers = []any{0, -1, 1, 3, 63, 64, 65, 255, 256, 1 << 16, 1<<31 - 1, 1 << 31, 3_000_000_000, int64(1)<<53 + 1, int64(1) << 62, 0.5, -0.25, 1e300}

// mutate changes a few places of an object.
func (m mutator) mutate(o object) object {
	for range 1 + m.IntN(3) {
		m.change(o, 0)
	}
	return o
}

// change goes down to a place by chance and does something there.
func (m mutator) change(at object, depth int) {
	if len(at) == 0 {
		return
	}
	keys := slices.Sorted(maps.Keys(at))
	key := keys[m.IntN(len(keys))]
	if depth == 0 && (key == "kind" || key == "apiVersion") { // those would only be refused
		key = "metadata"
	}
	switch value := at[key].(type) {
	case object:
		if m.IntN(6) > 0 {
			m.change(value, depth+1)
			return
		}
	case []any:
		if len(value) > 0 && m.IntN(6) > 0 {
			if inner, ok := value[m.IntN(len(value))].(object); ok {
				m.change(inner, depth+1)
				return
			}
		}
		if m.IntN(2) == 0 && len(value) > 0 {
			at[key] = slices.Repeat(value, 1+m.IntN(200))
			return
		}
	}
	if depth == 0 || key == "name" && depth == 1 {
		return
	}
	at[key] = m.hostile(at[key])
}

// hostile returns something in place of a value: mostly of its own kind.
func (m mutator) hostile(value any) any {
	if m.IntN(5) > 0 {
		switch value := value.(type) {
		case string:
			return m.text(value)
		case int, int64, float64:
			return hostileNumbers[m.IntN(len(hostileNumbers))]
		case bool:
			return !value
		}
	}
	return []any{nil, m.text("x"), hostileNumbers[m.IntN(len(hostileNumbers))], true, object{}, []any{}, []any{nil}, object{"": nil}}[m.IntN(8)]
}

// text is another text, or one that is nearly the same.
func (m mutator) text(value string) string {
	if m.IntN(3) > 0 || value == "" {
		return hostileStrings[m.IntN(len(hostileStrings))]
	}
	bytes := []byte(value)
	for range 1 + m.IntN(4) {
		i := m.IntN(len(bytes))
		switch m.IntN(3) {
		case 0:
			bytes[i] = byte(32 + m.IntN(95))
		case 1:
			bytes = slices.Delete(bytes, i, min(i+1+m.IntN(8), len(bytes)))
		default:
			bytes = slices.Insert(bytes, i, []byte(hostileStrings[m.IntN(12)])...)
		}
		if len(bytes) == 0 {
			break
		}
	}
	return strings.ToValidUTF8(string(bytes), "?")
}

// annotation is a value of one of ours, good or nearly so.
func (m mutator) annotation(key string) string {
	good := map[string]func() string{
		names.AnnotationInventory: func() string {
			text, err := json.Marshal(object{"version": 1, "gpus": m.cards(1 + m.IntN(70)), "links": []any{object{"gpus": []any{0, 1}, "nvlinks": 2}}})
			if err != nil {
				return ""
			}
			return string(text)
		},
		names.AnnotationGPUDevices: func() string {
			return fmt.Sprintf(`{"version":1,"containers":{"main":[{"uuid":"index-%d","index":%d}]}}`, m.IntN(300), m.IntN(300))
		},
		names.AnnotationGPUTypes:     func() string { return strings.Repeat("T4,H100,", m.IntN(20)) + "T4" },
		names.AnnotationGPUShare:     func() string { return fmt.Sprintf("%dMi", m.IntN(100_000)) },
		names.AnnotationGPUMemoryMin: func() string { return fmt.Sprintf("%dGi", m.IntN(100)) },
		names.AnnotationDecision:     func() string { return fmt.Sprintf("%d/%d", m.Int64(), m.Int64()) },
		names.AnnotationEpoch:        func() string { return fmt.Sprintf("a/%d", m.IntN(9)) },
		names.AnnotationGangPlan:     func() string { return fmt.Sprintf("a/%d", m.IntN(9)) },
	}[key]()
	if m.IntN(3) == 0 {
		return good
	}
	return m.text(good)
}

func (m mutator) cards(count int) []any {
	var cards []any
	for i := range count {
		card := object{"uuid": fmt.Sprintf("GPU-%d", i), "index": i, "memoryMiB": 16384, "health": "Healthy", "numaNode": i % 2, "pcieSwitch": "s"}
		if m.IntN(20) == 0 {
			m.mutate(object{"metadata": card})
		}
		cards = append(cards, card)
	}
	return cards
}

// shapes make a good object of each kind that the scheduler decodes, under a name.
var shapes = map[string]func(m mutator, name string) object{
	"pods": func(m mutator, name string) object {
		annotations := object{}
		for _, key := range []string{
			names.AnnotationGPUTypes, names.AnnotationGPUShare, names.AnnotationGPUMemoryMin,
			names.AnnotationGPUDevices, names.AnnotationDecision, names.AnnotationEpoch, names.AnnotationGangPlan, names.AnnotationInventory,
		} {
			if m.IntN(4) == 0 {
				annotations[key] = m.annotation(key)
			}
		}
		ask := []string{string(names.ResourceGPU), string(names.ResourceSharedGPU), names.ResourceMIGPrefix + "1g.5gb"}[m.IntN(3)]
		resources := func() object {
			amount := []any{1, 2, 8, "1", 0}[m.IntN(5)]
			return object{"limits": object{ask: amount, "cpu": "1"}, "requests": object{ask: amount, "cpu": "10m", "memory": "1Mi"}}
		}
		return object{
			"metadata": object{"name": name, "annotations": annotations, "labels": object{
				names.LabelPool: "fuzz", names.LabelJob: "job", names.LabelJobType: "training", names.LabelPodGroup: fmt.Sprintf("fuzz-%d", m.IntN(500)),
			}},
			"spec": object{
				"schedulerName": names.SchedulerName, "priorityClassName": "g8s-low", "nodeSelector": object{names.LabelGPUType: "T4"},
				"containers":     []any{object{"name": "main", "image": "i", "resources": resources()}, object{"name": "side", "image": "i", "resources": resources()}},
				"initContainers": []any{object{"name": "init", "image": "i", "restartPolicy": "Always", "resources": resources()}},
				"tolerations":    []any{object{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}},
				"affinity": object{"nodeAffinity": object{
					"requiredDuringSchedulingIgnoredDuringExecution": object{"nodeSelectorTerms": []any{object{"matchExpressions": []any{
						object{"key": names.LabelGPUType, "operator": "In", "values": []any{"T4", "H100"}},
					}}}},
					"preferredDuringSchedulingIgnoredDuringExecution": []any{object{"weight": 1, "preference": object{"matchExpressions": []any{
						object{"key": names.LabelAccelerator, "operator": "Gt", "values": []any{"1"}},
					}}}},
				}},
				"topologySpreadConstraints": []any{object{"maxSkew": 1, "topologyKey": names.LabelRack, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2, "labelSelector": object{"matchLabels": object{"a": "b"}}}},
			},
		}
	},
	"nodes": func(m mutator, name string) object {
		metadata := object{"name": name, "labels": object{
			names.LabelPool: "fuzz", names.LabelGPUType: "T4", names.LabelMemory: "16Gi", names.LabelCount: "2", names.LabelNVIDIAMemory: "16384",
			names.LabelNVIDIACount: "8", names.LabelNVIDIAClique: "c.1", names.LabelInterconnect: "nvlink", names.LabelRack: "r", names.LabelSharing: "memory",
		}}
		if m.IntN(2) == 0 {
			metadata["annotations"] = object{names.AnnotationInventory: m.annotation(names.AnnotationInventory)}
		}
		amounts := object{"cpu": "8", "memory": "64Gi", "pods": "110", string(names.ResourceGPU): "8", string(names.ResourceSharedGPU): "20", names.ResourceMIGPrefix + "1g.5gb": "7"}
		return object{
			"metadata": metadata, "spec": object{"unschedulable": false, "taints": []any{object{"key": "k", "value": "v", "effect": "PreferNoSchedule"}}},
			"status": object{"capacity": amounts, "allocatable": maps.Clone(amounts), "conditions": []any{object{"type": "Ready", "status": "True"}}},
		}
	},
	"podgroups": func(m mutator, name string) object {
		return object{"metadata": object{"name": name}, "spec": object{
			"minMember": 1 + m.IntN(4), "scheduleTimeoutSeconds": 30, "minResources": object{"cpu": "1", string(names.ResourceGPU): "1"},
		}}
	},
	"priorityclasses": func(m mutator, name string) object {
		return object{"metadata": object{"name": name}, "value": 100 + m.IntN(1000), "preemptionPolicy": "Never", "globalDefault": false, "description": "d"}
	},
}

// make is a hostile object of a kind.
func (m mutator) make(kind, name string) object {
	made := shapes[kind](m, name)
	if m.IntN(10) == 0 {
		return made
	}
	return m.mutate(made)
}
