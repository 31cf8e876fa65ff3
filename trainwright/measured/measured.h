#pragma once
// Runs that somebody measured, as questions with answers.
//
// 1. Tables are read as their sources printed them (run.h).
// 2. Rules turn rows into the words of a question (source.h, data/sources/*.json), and the reader
//    that everybody uses turns the words into values (question.h).
// 3. A case is such a question with what was measured (case.h).
//
// A table of one's own needs no rules: its rows hold the words themselves (run.h).
#include "trainwright/measured/case.h"
#include "trainwright/measured/reading.h"
#include "trainwright/measured/run.h"
#include "trainwright/measured/source.h"
