package workdir

import "testing"

// TestIgnored holds lines of .gitignore against paths; want is what git check-ignore says of each.
func TestIgnored(t *testing.T) {
	tests := map[string]struct {
		lines, path string
		folder      bool
		want        bool
	}{
		"a name anywhere":                             {lines: "data", path: "a/b/data", want: true},
		"a name is a whole one":                       {lines: "data", path: "database", want: false},
		"a slash at the beginning is the root":        {lines: "/data", path: "a/data", want: false},
		"a slash inside is the root as well":          {lines: "a/data", path: "b/a/data", want: false},
		"a slash at the end is folders alone":         {lines: "data/", path: "data", want: false},
		"a folder with a slash at the end":            {lines: "data/", path: "a/data", folder: true, want: true},
		"a star stays in its folder":                  {lines: "a/*.py", path: "a/b/c.py", want: false},
		"two stars before":                            {lines: "**/b/c", path: "a/b/c", want: true},
		"two stars between are also no folder":        {lines: "a/**/c", path: "a/c", want: true},
		"two stars between are several":               {lines: "a/**/c", path: "a/x/y/c", want: true},
		"two stars behind are what is in a folder":    {lines: "a/**", path: "a", folder: true, want: false},
		"two stars behind, deep":                      {lines: "a/**", path: "a/x/y", want: true},
		"the last line decides":                       {lines: "*.log\n!keep.log", path: "keep.log", want: false},
		"and not one before":                          {lines: "!keep.log\n*.log", path: "keep.log", want: true},
		"folders are kept, and nothing else":          {lines: "*\n!*/\n!*.py", path: "a/b.txt", want: true},
		"what is kept in kept folders":                {lines: "*\n!*/\n!*.py", path: "a/b.py", want: false},
		"a comment":                                   {lines: "#data", path: "#data", want: false},
		"a quoted number sign":                        {lines: `\#data`, path: "#data", want: true},
		"a quoted exclamation mark":                   {lines: `\!data`, path: "!data", want: true},
		"blanks at the end do not count":              {lines: "data  ", path: "data", want: true},
		"a quoted blank does":                         {lines: `data\ `, path: "data ", want: true},
		"a file of Windows":                           {lines: "data\r\n", path: "data", want: true},
		"a byte order mark":                           {lines: "\ufeffdata", path: "data", want: true},
		"any of letters":                              {lines: "[ab].py", path: "b.py", want: true},
		"none of letters":                             {lines: "[!ab].py", path: "b.py", want: false},
		"braces mean themselves":                      {lines: "{a,b}", path: "a", want: false},
		"braces are matched as they are":              {lines: "{a,b}", path: "{a,b}", want: true},
		"names that begin with a dot":                 {lines: "*.env", path: ".env", want: true},
		"a pattern that is none leaves nothing out":   {lines: "[a", path: "[a", want: false},
		"nothing but a slash":                         {lines: "/", path: "a", want: false},
		"a question mark is one letter, and no slash": {lines: "a?b", path: "a/b", want: false},
		"a letter of several bytes is one letter":     {lines: "?.py", path: "ä.py", want: true},
		"several stars in a name are one":             {lines: "a**b", path: "axyb", want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := isIgnored(parseIgnore("", []byte(tc.lines)), tc.path, tc.folder); got != tc.want {
				t.Errorf("%q of %q: got %v, want %v", tc.path, tc.lines, got, tc.want)
			}
		})
	}
}
