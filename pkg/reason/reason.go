// Package reason is the catalogue of why a pod has no node: each reason once, with the text that a scheduler writes, the
// cause that users are told, what they can do about it, and whether an eviction would help. Plugins write the texts from
// here, and gpuctl finds them here again in what a pod's condition says.
package reason

import (
	"strconv"
	"strings"
)

// Reason is one reason. What a text has in place of its verbs is $1, $2 and so on in the sentence and the advice; there
// $namespace is that of the pod.
type Reason struct {
	// Code names the reason in metrics, "" for one that none counts.
	Code string
	// Text is what is written on the pod. Of a node it is constant, because the scheduler adds up nodes by equal texts.
	Text Text
	// Also are texts that other versions, or several plugins of Kubernetes, write for it.
	Also []Text
	// Evictable says that pods which leave can mend it.
	Evictable bool
	Cause     Cause
	// Says is the sentence for users, from what the text alone tells.
	Says string
	// Advice is what to do: alternatives, the best first.
	Advice []Advice
}

// Advice is one thing to do. Text says all that the other fields do.
type Advice struct {
	Action Action
	// Field is the field of the job's YAML that Value belongs into, or what else of an object it is about.
	Field, Value string
	// Kind and Name are of the object that it is about.
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

// In returns those of the reasons that a verdict contains, in their order.
func In(verdict string, reasons []*Reason) []Found {
	verdict = Trim(verdict)
	var out []Found
	for _, r := range reasons {
		for _, text := range append([]Text{r.Text}, r.Also...) {
			if args, at, ok := text.find(verdict); ok {
				out = append(out, Found{Reason: r, Nodes: numberBefore(verdict[:at]), args: args})
				break
			}
		}
	}
	return out
}

// With is a reason that was found otherwise, with the values of its text.
func (r *Reason) With(values ...string) Found { return Found{Reason: r, args: values} }

// mostValues is how many values a text has at most.
const mostValues = 3

// Fill writes what the verdict says in place of $1, $2 and so on. Of a text without so many verbs they are empty.
func (f *Found) Fill(text, namespace string) string {
	values := []string{"$namespace", namespace}
	for i := range mostValues {
		value := ""
		if i < len(f.args) {
			value = f.args[i]
		}
		values = append(values, "$"+strconv.Itoa(i+1), value)
	}
	return strings.NewReplacer(values...).Replace(text)
}

// Trim leaves out of a verdict what ends it: the outcome of the search for victims, node by node once more.
func Trim(verdict string) string {
	for _, tail := range []string{" preemption: ", " no new claims to deallocate"} {
		verdict, _, _ = strings.Cut(verdict, tail)
	}
	return strings.TrimRight(verdict, " .,")
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
