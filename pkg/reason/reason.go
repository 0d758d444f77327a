// Package reason is the catalog of reasons why a pod has no node. Each reason appears once, with the scheduler's text, the cause for users, what they
// can do about it, and whether an eviction would help. Plugins write the texts from here, and gpuctl finds them again in a pod's condition.
package reason

import (
	"strconv"
	"strings"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Reason is one reason. The values of the verbs in its text are %[1]s, %[2]s and so on in the sentence and the advice; there %[4]s is the namespace
// of the pod.
type Reason struct {
	// Code names the reason in metrics, "" for one that is not counted.
	Code string
	// Text is what is written on the pod. For a node it is constant, because the scheduler adds up nodes by equal texts.
	Text Text
	// Also are texts that other versions, or several plugins of Kubernetes, write for it.
	Also []Text
	// Evictable is true if an eviction can resolve it.
	Evictable bool
	// Never is true if the pod could not start even on empty nodes.
	Never bool
	// Late is true if it follows the outcome of the search for victims, which otherwise ends the scheduler's message.
	Late  bool
	Cause Cause
	// Says is the sentence for users, from what the text alone shows.
	Says string
	// Advice is what to do: alternatives, the best first.
	Advice []Advice
}

// Advice is one remedy. Text covers all other fields.
type Advice struct {
	Action Action
	// Field is the field of the job's YAML for Value, or another part of the object.
	Field, Value string
	// Kind and Name identify the object.
	Kind, Name string
	// Command shows what there is to know.
	Command string
	Text    string
}

// Found is a reason in what a scheduler wrote on a pod.
type Found struct {
	*Reason
	// Nodes is how many nodes have it, 0 where it is about the pod itself.
	Nodes int
	args  []string
}

// In returns the reasons that a verdict contains, in their order.
func In(verdict string, reasons []*Reason) []Found {
	var out []Found
	whole := verdict
	for _, r := range reasons {
		verdict := r.trim(whole)
		for _, text := range append([]Text{r.Text}, r.Also...) {
			if args, at, ok := text.find(verdict); ok {
				out = append(out, Found{Reason: r, Nodes: numberBefore(verdict[:at]), args: args})
				break
			}
		}
	}
	return out
}

// ValuesIn returns the values of the verbs of the reason's text in a verdict, false for a verdict without it.
func (r *Reason) ValuesIn(verdict string) ([]string, bool) {
	found := In(verdict, []*Reason{r})
	if len(found) == 0 {
		return nil, false
	}
	return found[0].args, true
}

// Before returns the part of a verdict before the reason's text, or all of it if the text is not in it.
func (r *Reason) Before(verdict string) string {
	if _, at, ok := r.Text.find(verdict); ok {
		return strings.TrimRight(verdict[:at], " ,")
	}
	return verdict
}

// With returns a reason that was found by other means, with the values of its text.
func (r *Reason) With(values ...string) Found { return Found{Reason: r, args: values} }

// mostValues is how many values a text has at most.
const mostValues = 3

// Fill fills a text of the catalog with the values of the verdict. Values are empty if the verdict does not have them.
func (f *Found) Fill(text, namespace string) phrase.Text {
	if text == "" {
		return nil
	}
	if !strings.Contains(text, "%") {
		return phrase.Template(text, nil)
	}
	values := make([]any, mostValues+1)
	for i := range mostValues {
		values[i] = ""
		if i < len(f.args) {
			values[i] = f.args[i]
		}
	}
	values[mostValues] = namespace
	return phrase.Template(text, values)
}

// Trim removes the end of a verdict: the outcome of the search for victims, which repeats the nodes.
func Trim(verdict string) string {
	for _, tail := range []string{" preemption: ", " no new claims to deallocate"} {
		verdict, _, _ = strings.Cut(verdict, tail)
	}
	return strings.TrimRight(verdict, " .,")
}

// trim removes the parts of a verdict that cannot contain the reason.
func (r *Reason) trim(verdict string) string {
	if !r.Late {
		return Trim(verdict)
	}
	first, _, _ := strings.Cut(string(r.Text), "%")
	at := strings.Index(verdict, first)
	if at < 0 {
		return ""
	}
	return Trim(verdict[at:])
}

// numberBefore is the number that ends a text, with a space after it; 0 for none.
func numberBefore(text string) int {
	text = strings.TrimSuffix(text, " ")
	start := len(text)
	for start > 0 && text[start-1] >= '0' && text[start-1] <= '9' {
		start--
	}
	number, _ := strconv.Atoi(text[start:])
	return number
}
