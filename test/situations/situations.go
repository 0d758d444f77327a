package situations

import (
	"embed"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/pkg/reason"
)

//go:embed testdata
var testdata embed.FS

// Group is where a situation comes from.
type Group string

// The groups: the commonest causes one by one, all pairs of them, other causes one by one, and several causes or words that were false once.
const (
	Alone   Group = "one of the ten commonest causes"
	Pairs   Group = "two of the ten, all pairs"
	Single  Group = "another cause alone"
	Several Group = "several causes, or a word that was false once"
)

// Groups are all of them.
var Groups = []Group{Alone, Pairs, Single, Several}

// Situation is one in which a job does not run.
type Situation struct {
	Group Group  `json:"-"`
	Name  string `json:"name"`
	// With are the setups that make it.
	With []string `json:"with"`
	// Want are the causes, in the order in which they have to be mended.
	Want []reason.Cause `json:"want"`
	// Says is what the answer has to say, Never what it must not say.
	Says  []string `json:"says"`
	Never []string `json:"never"`
}

// cause is one of the commonest.
type cause struct {
	Setup  string       `json:"setup"`
	Cause  reason.Cause `json:"cause"`
	Advice string       `json:"advice"`
}

// pair is an exception among the pairs of causes.
type pair struct {
	Of      []string       `json:"of"`
	Want    []reason.Cause `json:"want"`
	Because string         `json:"because"`
}

// AllSituations are all situations.
func AllSituations() []Situation {
	causes, exceptions := mustLoad[cause]("causes.yaml"), mustLoad[pair]("pairs.yaml")
	var out []Situation
	for i, first := range causes {
		out = append(out, Situation{Group: Alone, Name: first.Setup, With: []string{first.Setup}, Want: []reason.Cause{first.Cause}, Says: []string{first.Advice}})
		for _, second := range causes[i+1:] {
			s := Situation{
				Group: Pairs, Name: first.Setup + " and " + second.Setup,
				With: []string{first.Setup, second.Setup}, Want: []reason.Cause{first.Cause, second.Cause},
			}
			if at := slices.IndexFunc(exceptions, func(p pair) bool { return slices.Equal(p.Of, s.With) }); at >= 0 {
				s.Want = exceptions[at].Want
			}
			out = append(out, s)
		}
	}
	return slices.Concat(out, groupedSituations(Single, "single.yaml"), groupedSituations(Several, "situations.yaml"))
}

// groupedSituations are the situations of a file.
func groupedSituations(group Group, name string) []Situation {
	out := mustLoad[Situation](name)
	for i := range out {
		out[i].Group = group
		if out[i].Name == "" {
			out[i].Name = out[i].With[0]
		}
	}
	return out
}

// World makes the situation.
func (s *Situation) World() *World {
	w := newWorld()
	for _, name := range s.With {
		setup, ok := setups[name]
		if !ok {
			panic(fmt.Sprintf("situation %q: no setup is called %q", s.Name, name)) //nolint:forbidigo // a mistake in the data of tests ends them
		}
		setup(w)
	}
	return w
}

// mustLoad reads a file of testdata, which is part of the program.
func mustLoad[T any](name string) []T {
	text, err := testdata.ReadFile("testdata/" + name)
	if err != nil {
		panic(err) //nolint:forbidigo // a mistake in the data of tests ends them
	}
	var out []T
	if err := yaml.UnmarshalStrict(text, &out); err != nil {
		panic(fmt.Sprintf("%s: %v", name, err)) //nolint:forbidigo // a mistake in the data of tests ends them
	}
	return out
}
