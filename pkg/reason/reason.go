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
	// Message is the sentence for users, from what the text alone shows.
	Message string
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

// FindIn returns the reasons that a verdict contains, in their order.
func FindIn(verdict string, reasons []*Reason) []Found {
	var out []Found
	whole := verdict
	for _, r := range reasons {
		verdict := r.trimVerdict(whole)
		for _, text := range append([]Text{r.Text}, r.Also...) {
			if args, at, ok := text.findValues(verdict); ok {
				out = append(out, Found{Reason: r, Nodes: numberBefore(verdict[:at]), args: args})
				break
			}
		}
	}
	return out
}

// ValuesIn returns the values of the verbs of the reason's text in a verdict, false for a verdict without it.
func (r *Reason) ValuesIn(verdict string) ([]string, bool) {
	found := FindIn(verdict, []*Reason{r})
	if len(found) == 0 {
		return nil, false
	}
	return found[0].args, true
}

// TextBefore returns the part of a verdict before the reason's text, or all of it if the text is not in it.
func (r *Reason) TextBefore(verdict string) string {
	if _, at, ok := r.Text.findValues(verdict); ok {
		return strings.TrimRight(verdict[:at], " ,")
	}
	return verdict
}

// FoundWith returns a reason that was found by other means, with the values of its text.
func (r *Reason) FoundWith(values ...string) Found { return Found{Reason: r, args: values} }

// maxValues is how many values a text has at most.
const maxValues = 3

// FillText fills a text of the catalog with the values of the verdict. Values are empty if the verdict does not have them.
func (f *Found) FillText(text, namespace string) phrase.Text {
	if text == "" {
		return nil
	}
	if !strings.Contains(text, "%") {
		return phrase.FromTemplate(text, nil)
	}
	values := make([]any, maxValues+1)
	for i := range maxValues {
		values[i] = ""
		if i < len(f.args) {
			values[i] = f.args[i]
		}
	}
	values[maxValues] = namespace
	return phrase.FromTemplate(text, values)
}

// TrimVerdict removes the end of a verdict: the outcome of the search for victims, which repeats the nodes.
func TrimVerdict(verdict string) string {
	for _, tail := range []string{" preemption: ", " no new claims to deallocate"} {
		verdict, _, _ = strings.Cut(verdict, tail)
	}
	return strings.TrimRight(verdict, " .,")
}

// trimVerdict removes the parts of a verdict that cannot contain the reason.
func (r *Reason) trimVerdict(verdict string) string {
	if !r.Late {
		return TrimVerdict(verdict)
	}
	first, _, _ := strings.Cut(string(r.Text), "%")
	at := strings.Index(verdict, first)
	if at < 0 {
		return ""
	}
	return TrimVerdict(verdict[at:])
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
