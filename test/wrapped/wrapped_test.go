package wrapped

import (
	"reflect"
	"strings"
	"testing"
)

// store is an interface of another module, and later what its next release makes of it.
type store interface {
	Put(key string)
	Take(key string)
	Len() int
}

type later interface {
	store
	Drop(key string)
}

// counting overrides a method for the value, and one for the pointer.
type counting struct {
	store
	count int
}

func (c *counting) Put(key string) { c.count++; c.store.Put(key) }

func (c counting) Take(key string) { c.store.Take(key) }

type countingLater struct {
	later
	count int
}

func (c *countingLater) Put(key string) { c.count++; c.later.Put(key) }

func (c countingLater) Take(key string) { c.later.Take(key) }

// outer embeds a type that overrides methods, which are not its own.
type outer struct {
	store
	inner *counting
}

func (o outer) Len() int { return o.inner.count }

type holding struct{ _ store }

func TestDifferences(t *testing.T) {
	wrapped := reflect.TypeFor[store]()
	tests := map[string]struct {
		of, wrapped reflect.Type
		left        Left
		want        []string
	}{
		"all are overridden or left": {reflect.TypeFor[counting](), wrapped, Left{"it only asks": {"Len"}}, nil},
		"one is neither":             {reflect.TypeFor[counting](), wrapped, nil, []string{"does not override Len of wrapped.store"}},
		"the next release has one more": {reflect.TypeFor[countingLater](), reflect.TypeFor[later](), Left{"it only asks": {"Len"}},
			[]string{"does not override Drop of wrapped.later: do that, or say why not"}},
		"one that is left is overridden after all": {reflect.TypeFor[counting](), wrapped, Left{"it only asks": {"Len", "Put"}},
			[]string{"leaves Put, and overrides it"}},
		"one for the value, too": {reflect.TypeFor[counting](), wrapped, Left{"it only asks": {"Len", "Take"}},
			[]string{"leaves Take, and overrides it"}},
		"one that is left has gone": {reflect.TypeFor[counting](), wrapped, Left{"it only asks": {"Len", "Size"}},
			[]string{"leaves Size, which wrapped.store does not have"}},
		"one is left twice": {reflect.TypeFor[counting](), wrapped, Left{"it only asks": {"Len"}, "nobody calls it": {"Len"}},
			[]string{"leaves Len for several reasons"}},
		"no reason": {reflect.TypeFor[counting](), wrapped, Left{"": {"Len"}}, []string{"leaves Len without a reason"}},
		"what a field overrides is not overridden": {reflect.TypeFor[outer](), wrapped, Left{"nobody counts it": {"Put"}},
			[]string{"does not override Take"}},
		"it embeds no interface": {reflect.TypeFor[holding](), wrapped, nil, []string{"does not embed the interface wrapped.store"}},
		"it embeds another one":  {reflect.TypeFor[counting](), reflect.TypeFor[later](), nil, []string{"does not embed the interface wrapped.later"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := differences(tc.of, tc.wrapped, tc.left)
			if len(got) != len(tc.want) {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("got %q, want %q", got[i], want)
				}
			}
		})
	}
}
