// Package operatorfile reads the files that an operator writes by hand and may change while the
// process runs: lines of words, with comments from a word that begins with #. The package reads a
// file, splits its text, collects the faults of its lines, and notices its changes. The words of a
// line are the business of the package that owns the file.
//
// No error of this package shows a word of a file: a file may hold a secret in a wrong place.
package operatorfile
